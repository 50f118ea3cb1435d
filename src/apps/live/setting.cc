#include "apps/live/setting.h"

#include <fmt/format.h>

#include "apps/model_place.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/paths.h"
#include "cluster/detect.h"
#include "latency/sample_store.h"
#include "model/zoo/zoo.h"

namespace hase::live {
namespace fs = std::filesystem;

namespace {
std::vector<std::string> ZooNames() {
  std::vector<std::string> names;
  for (const auto& model : model::zoo::ZooModels()) names.emplace_back(model.name);
  return names;
}
}  // namespace

Result<fs::path> ModelFile(const std::string& model, const fs::path& state) {
  if (model.ends_with(".onnx")) {
    std::error_code error;
    if (!fs::is_regular_file(model, error))
      return Invalid(fmt::format("model {}: no such file", model));
    return fs::absolute(model);
  }
  const auto* zoo = model::zoo::FindZooModel(model);
  if (!zoo)
    return Invalid(
        fmt::format("'{}' is no model that can be run: not an .onnx file, and not in the zoo "
                    "(nearest: {}; `hase zoo list` shows all)",
                    model, NearestNames(model, ZooNames())));
  const fs::path file = state / "models" / (model + ".onnx");
  std::error_code error;
  if (fs::exists(file, error)) return file;
  fs::create_directories(file.parent_path(), error);
  HASE_ASSIGN_OR_RETURN(const std::string bytes, model::zoo::BuildOnnx(*zoo));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(file, bytes));
  return file;
}

Result<Models> InternModels(const std::vector<workload::Job>& jobs, const fs::path& state,
                            bool lower, const std::string& jobs_file) {
  const auto at_model = [&](const workload::Job& job, const Error& error) {
    return std::unexpected(jobs_file.empty() ? error : apps::AtModel(jobs_file, job.model, error));
  };
  HASE_ASSIGN_OR_RETURN(const fs::path data, DataDir());
  Models models;
  models.library = std::make_unique<model::ModelLibrary>(data);
  for (const workload::Job& job : jobs) {
    const size_t known = models.table.size();
    const ModelId id = models.table.Intern({job.model, job.runtime, job.precision});
    if (id.index() == known) {
      const auto file = ModelFile(job.model, state);
      if (!file) return at_model(job, file.error());
      models.files.push_back({.path = file->string()});
      if (lower) {
        const auto same = models.library->Intern({job.model, job.runtime, job.precision});
        if (!same) return at_model(job, same.error());
        if (*same != id) return Invalid(fmt::format("model {} was interned twice", job.model));
      }
    }
    models.inputs.push_back({.job = job, .model = id});
  }
  return models;
}

std::string MachineName() {
  const cluster::HostCpu cpu = cluster::DetectCpu();
  return fmt::format("{}, {} cores, {} MiB cache", cpu.model, cpu.cores.size(),
                     cpu.last_level_cache.value() >> 20);
}

Result<std::vector<latency::Sample>> ReadMeasured(const fs::path& state,
                                                  std::vector<cluster::DeviceType>& types) {
  const fs::path file = state / "samples.db";
  HASE_ASSIGN_OR_RETURN(const auto store, latency::SampleStore::OpenToRead(file, MachineName()));
  if (!store) return std::vector<latency::Sample>();
  for (auto& type : types) {
    HASE_ASSIGN_OR_RETURN(const auto bench, store->Bench(type.name));
    if (bench) type.bench = *bench;
  }
  HASE_ASSIGN_OR_RETURN(const int64_t unusable, store->CountUnusable());
  if (unusable > 0) {
    fmt::print(stderr, "{}: {} samples have no latency above 0 and do not count\n", file.string(),
               unusable);
  }
  return store->Query({});
}

}  // namespace hase::live

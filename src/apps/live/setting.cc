#include "apps/live/setting.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/paths.h"
#include "cluster/detect.h"
#include "model/zoo/zoo.h"

namespace hase::live {
namespace fs = std::filesystem;

Result<fs::path> ModelFile(const std::string& model, const fs::path& state) {
  if (model.ends_with(".onnx")) {
    std::error_code error;
    if (!fs::is_regular_file(model, error))
      return Invalid(fmt::format("model {}: no such file", model));
    return fs::absolute(model);
  }
  const auto* zoo = model::zoo::FindZooModel(model);
  if (!zoo)
    return Invalid(fmt::format(
        "model {}: to be run it must be an .onnx file or one of `hase zoo list`", model));
  const fs::path file = state / "models" / (model + ".onnx");
  std::error_code error;
  if (fs::exists(file, error)) return file;
  fs::create_directories(file.parent_path(), error);
  HASE_ASSIGN_OR_RETURN(const std::string bytes, model::zoo::BuildOnnx(*zoo));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(file, bytes));
  return file;
}

Result<Models> InternModels(const std::vector<workload::Job>& jobs, const fs::path& state,
                            bool lower) {
  HASE_ASSIGN_OR_RETURN(const fs::path data, DataDir());
  Models models;
  models.library = std::make_unique<model::ModelLibrary>(data);
  for (const workload::Job& job : jobs) {
    const size_t known = models.table.size();
    const ModelId id = models.table.Intern({job.model, job.runtime, job.precision});
    if (id.index() == known) {
      HASE_ASSIGN_OR_RETURN(const fs::path file, ModelFile(job.model, state));
      models.files.push_back({.path = file.string()});
      if (lower) {
        HASE_ASSIGN_OR_RETURN(const ModelId same,
                              models.library->Intern({job.model, job.runtime, job.precision}));
        if (same != id) return Invalid(fmt::format("model {} was interned twice", job.model));
      }
    }
    models.inputs.push_back({.job = job, .model = id});
  }
  return models;
}

std::string MachineName() {
  const cluster::HostCpu cpu = cluster::DetectCpu();
  return fmt::format("{}, {} cores", cpu.model.empty() ? "unknown CPU" : cpu.model,
                     cpu.cores.size());
}

}  // namespace hase::live

#include "model/library.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/nearest.h"
#include "model/kernels_json.h"
#include "model/lower.h"
#include "model/resolve.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".kernels.json";
constexpr int64_t kKernelsFileLimit = int64_t{64} << 20;

}  // namespace

std::vector<std::string> ZooNames(const fs::path& data_dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(data_dir / "zoo", error)) {
    std::string name = file.path().filename().string();
    if (!name.ends_with(kSuffix)) continue;
    name.resize(name.size() - kSuffix.size());
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

Result<Graph> OpenModel(const std::string& name, const fs::path& data_dir,
                        const Dimensions& dimensions) {
  std::error_code error;
  if (fs::exists(name, error) && !fs::is_regular_file(name, error) &&
      !fs::is_directory(name, error)) {  // a pipe would wait, a device never end
    return Invalid(fmt::format("{}: is no regular file", name));
  }
  if (name.ends_with(".onnx")) return LowerInChild(name, {.dimensions = dimensions, .scratch = {}});
  if (!dimensions.empty()) {
    return Usage(fmt::format("{}: --dim fixes dimensions of ONNX files only", name));
  }
  const bool zoo = !name.ends_with(kSuffix);
  const fs::path file = zoo ? data_dir / "zoo" / (name + std::string(kSuffix)) : fs::path(name);
  if (zoo && (name.find('/') != std::string::npos || !fs::exists(file, error))) {
    return Invalid(fmt::format(
        "'{}' is no model: not an .onnx or {} file, and not in the zoo (nearest: {}; `hase zoo "
        "list` shows all)",
        name, kSuffix, NearestNames(name, ZooNames(data_dir))));
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kKernelsFileLimit));
  return ReadKernelsJson(text, file.string());
}

ModelLibrary::ModelLibrary(fs::path data_dir, Dimensions dimensions)
    : data_dir_(std::move(data_dir)), dimensions_(std::move(dimensions)) {}
ModelLibrary::~ModelLibrary() = default;

Result<const Graph*> ModelLibrary::Open(const std::string& name) {
  const auto known = graphs_.find(name);
  if (known != graphs_.end()) return known->second.get();
  const bool onnx = name.ends_with(".onnx");
  HASE_ASSIGN_OR_RETURN(Graph graph, OpenModel(name, data_dir_, onnx ? dimensions_ : Dimensions()));
  return graphs_.emplace(name, std::make_unique<Graph>(std::move(graph))).first->second.get();
}

Result<ModelId> ModelLibrary::Intern(const ModelEntry& entry) {
  const auto known = std::ranges::find(models_, entry, &Model::entry);
  if (known != models_.end()) {
    return ModelId(static_cast<uint32_t>(known - models_.begin()));
  }
  HASE_ASSIGN_OR_RETURN(const Graph* graph, Open(entry.name));
  const Model model{entry, graph};
  // Once here, so that Kernels cannot fail on the model or the rules later.
  const int64_t batch = graph->fixed_batch.value_or(1);
  for (const Runtime runtime :
       {Runtime::kOrtCpu, Runtime::kOrtCuda, Runtime::kTensorRt, Runtime::kPyTorch}) {
    if (entry.runtime && *entry.runtime != runtime) continue;
    HASE_ASSIGN_OR_RETURN(const Graph* fused, Fused(model, runtime));
    HASE_RETURN_IF_ERROR(Resolve(*fused, runtime, entry.precision, batch));
  }
  models_.push_back(model);
  return ModelId(static_cast<uint32_t>(models_.size() - 1));
}

Result<const FusionRules*> ModelLibrary::Rules(Runtime runtime) const {
  const auto known = rules_.find(runtime);
  if (known != rules_.end()) return &known->second;
  HASE_ASSIGN_OR_RETURN(
      FusionRules rules,
      LoadFusionRules(data_dir_ / "fusion" / fmt::format("{}.yaml", ToString(runtime))));
  return &rules_.emplace(runtime, std::move(rules)).first->second;
}

Result<const Graph*> ModelLibrary::Fused(const Model& model, Runtime runtime) const {
  const std::pair key(model.graph, runtime);
  const auto known = fused_.find(key);
  if (known != fused_.end()) return known->second.get();
  HASE_ASSIGN_OR_RETURN(const FusionRules* rules, Rules(runtime));
  auto graph = std::make_unique<Graph>(Fuse(*model.graph, *rules));
  return fused_.emplace(key, std::move(graph)).first->second.get();
}

Result<const ModelKernels*> ModelLibrary::Kernels(ModelId id, Runtime runtime,
                                                  int64_t batch) const {
  const Model& model = models_[id.index()];
  const Runtime actual = model.entry.runtime.value_or(runtime);
  const Key key(id.index(), actual, batch);
  const auto known = kernels_.find(key);
  if (known != kernels_.end()) return known->second.get();
  HASE_ASSIGN_OR_RETURN(const Graph* fused, Fused(model, actual));
  HASE_ASSIGN_OR_RETURN(ModelKernels kernels,
                        Resolve(*fused, actual, model.entry.precision, batch));
  return kernels_.emplace(key, std::make_unique<ModelKernels>(std::move(kernels)))
      .first->second.get();
}

}  // namespace hase::model

// ModelLibrary: every model that a run speaks of, by dense id, with its kernels for any runtime and
// batch. Interning a name does all that can fail (finding, reading, lowering); afterwards kernels
// are arithmetic, memoised.
//
// A name is a zoo model ("resnet50", kernel lists shipped under data/zoo), a *.kernels.json file or
// an *.onnx file. Not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/fusion.h"
#include "model/graph.h"
#include "model/kernel.h"

namespace hase::model {

// What is to be run: a model, and the wishes that change its kernels.
struct ModelEntry {
  std::string name;
  std::optional<Runtime> runtime;  // nullopt: the device's own
  Precision precision = Precision::kFp32;
  bool operator==(const ModelEntry&) const = default;
};

// Values of symbolic dimensions other than the batch, by name.
using Dimensions = std::vector<std::pair<std::string, int64_t>>;

class ModelLibrary {
 public:
  // `dimensions` of all ONNX files that are interned.
  explicit ModelLibrary(std::filesystem::path data_dir, Dimensions dimensions = {});
  ~ModelLibrary();

  // The same entry gives the same id. All errors of the model surface here.
  Result<ModelId> Intern(const ModelEntry& entry);
  const ModelEntry& entry(ModelId id) const { return models_[id.index()].entry; }
  size_t size() const { return models_.size(); }

  // The kernels at this batch for this runtime (the entry's own wish, if it has one, comes first).
  // Fails only for a batch that the file does not allow or that overflows. The pointer stays valid
  // as long as the library.
  Result<const ModelKernels*> Kernels(ModelId id, Runtime runtime, int64_t batch) const;
  // The model's basic graph.
  const Graph& graph(ModelId id) const { return *models_[id.index()].graph; }

 private:
  struct Model {
    ModelEntry entry;
    const Graph* graph = nullptr;  // in graphs_
  };
  using Key = std::tuple<uint32_t, Runtime, int64_t>;

  Result<const Graph*> Open(const std::string& name);
  Result<const FusionRules*> Rules(Runtime runtime) const;
  Result<const Graph*> Fused(const Model& model, Runtime runtime) const;

  std::filesystem::path data_dir_;
  Dimensions dimensions_;
  std::vector<Model> models_;
  std::map<std::string, std::unique_ptr<Graph>> graphs_;  // by name
  mutable std::map<Runtime, FusionRules> rules_;
  mutable std::map<std::pair<const Graph*, Runtime>, std::unique_ptr<Graph>> fused_;
  mutable std::map<Key, std::unique_ptr<ModelKernels>> kernels_;
};

// Reads any of the three kinds of model into its basic graph. `dimensions` fixes symbolic
// dimensions other than the batch (ONNX files only).
Result<Graph> OpenModel(const std::string& name, const std::filesystem::path& data_dir,
                        const Dimensions& dimensions = {});
// Names of the zoo models whose kernel lists lie in the data directory, sorted.
std::vector<std::string> ZooNames(const std::filesystem::path& data_dir);

}  // namespace hase::model

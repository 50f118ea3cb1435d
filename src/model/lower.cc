#include "model/lower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "model/onnx/file.h"
#include "model/ort/session.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;
using onnx_file::FileNode;
using onnx_file::kUnknownDim;
using onnx_file::OnnxFile;
using onnx_file::Value;

// Two batches fix an affine function, the third tells whether it is one.
constexpr int64_t kProbeBatches[] = {2, 3, 7};
constexpr std::string_view kBatchSymbol = "hase_batch";

// The model's inputs with the batch marked and every other dimension fixed.
struct Signature {
  std::vector<Value> inputs;
  std::optional<int64_t> fixed_batch;

  std::vector<Value> At(int64_t batch) const {
    std::vector<Value> fixed = inputs;
    for (Value& value : fixed) {
      for (int64_t& dim : value.dims) {
        if (dim == kUnknownDim) dim = batch;
      }
    }
    return fixed;
  }
};

std::string SymbolOf(const Value& value, size_t dim) {
  return value.symbols[dim].empty() ? fmt::format("{}:{}", value.name, dim) : value.symbols[dim];
}

// The batch is the first symbolic leading dimension; the same name elsewhere, and unnamed leading
// dimensions, mean it too.
std::string FindBatchSymbol(const std::vector<Value>& inputs) {
  for (const Value& value : inputs) {
    if (!value.dims.empty() && value.dims[0] == kUnknownDim) return SymbolOf(value, 0);
  }
  return "";
}

Status CheckDimensionNames(const std::string& name, const std::vector<Value>& inputs,
                           const LowerOptions& options) {
  std::set<std::string> known;
  for (const Value& value : inputs) {
    for (size_t i = 0; i < value.dims.size(); ++i) {
      if (value.dims[i] == kUnknownDim) known.insert(SymbolOf(value, i));
    }
  }
  for (const auto& [symbol, size] : options.dimensions) {
    if (!known.contains(symbol)) {
      return Usage(fmt::format(
          "{}: --dim {}={}: the model has no such symbolic dimension (it has: {})", name, symbol,
          size, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }
    if (size < 1) return Usage(fmt::format("--dim {}={}: must be at least 1", symbol, size));
  }
  return {};
}

Result<Signature> ReadSignature(const std::string& name, const OnnxFile& file,
                                const LowerOptions& options) {
  Signature signature{.inputs = file.inputs(), .fixed_batch = {}};
  HASE_RETURN_IF_ERROR(CheckDimensionNames(name, signature.inputs, options));
  const std::string batch = FindBatchSymbol(signature.inputs);
  std::set<std::string> open;
  bool symbolic = false;
  for (Value& value : signature.inputs) {
    for (size_t i = 0; i < value.dims.size(); ++i) {
      if (value.dims[i] != kUnknownDim) continue;
      const std::string symbol = SymbolOf(value, i);
      const auto given =
          std::ranges::find(options.dimensions, symbol, &std::pair<std::string, int64_t>::first);
      if (given != options.dimensions.end()) {
        value.dims[i] = given->second;
      } else if (symbol == batch || (i == 0 && value.symbols[i].empty())) {
        value.symbols[i] = kBatchSymbol;
        symbolic = true;
      } else {
        open.insert(symbol);
      }
    }
  }
  if (!open.empty()) {
    std::string hint;
    for (const auto& symbol : open) hint += fmt::format(" --dim {}=…", symbol);
    return Invalid(
        fmt::format("{}: dimensions other than the batch are left open: {}; fix them with{}", name,
                    fmt::join(open, ", "), hint));
  }
  if (!symbolic) {
    const Shape& first = signature.inputs.front().dims;
    signature.fixed_batch = first.empty() ? 1 : first[0];
  }
  return signature;
}

// ONNX Runtime writes its optimised graph to files only, the weights beside it.
Result<std::string> OptimiseBasic(const std::string& bytes, const fs::path& model,
                                  const fs::path& scratch) {
  const fs::path target = scratch / "model.onnx";
  ort::SessionOptions options;
  options.optimisation = ort::Optimisation::kBasic;
  options.save_optimised = target;
  options.drop_saved_weights = true;
  options.weights_folder = fs::absolute(model).parent_path();
  HASE_RETURN_IF_ERROR(ort::Session::Create(bytes, model.string(), options));
  return ReadFile(target);
}

using ShapeOf = std::unordered_map<std::string, ort::TensorInfo>;

// Every tensor's shape and type for inputs of these dimensions. Weights are not needed.
Result<ShapeOf> Probe(OnnxFile& optimised, const std::vector<Value>& inputs,
                      const std::string& name) {
  optimised.SetInputs(inputs);
  ort::SessionOptions options;
  options.optimisation = ort::Optimisation::kNone;
  HASE_ASSIGN_OR_RETURN(const auto session,
                        ort::Session::Create(optimised.SerialiseProbe(), name, options));
  ShapeOf shapes;
  for (const auto& input : session.inputs()) shapes.emplace(input.name, input);
  for (const auto& output : session.outputs()) shapes.emplace(output.name, output);
  return shapes;
}

// The model's graph at one batch, as ONNX Runtime left it.
struct Snapshot {
  int64_t batch = 1;
  std::vector<FileNode> nodes;
  ShapeOf shapes;
};

// The first node with an output whose shape is not known, if any.
std::optional<std::string> Unresolved(const Snapshot& snapshot) {
  for (const FileNode& node : snapshot.nodes) {
    for (const auto& output : node.outputs) {
      const auto found = snapshot.shapes.find(output);
      if (output.empty() || found == snapshot.shapes.end()) continue;
      if (std::ranges::find(found->second.shape, -1) != found->second.shape.end()) {
        return fmt::format("node '{}' ({})", node.node.name, node.node.op);
      }
    }
  }
  return std::nullopt;
}

class Lowering {
 public:
  Lowering(const fs::path& path, const fs::path& scratch, OnnxFile file, Signature signature)
      : path_(path), scratch_(scratch), file_(std::move(file)), signature_(std::move(signature)) {}

  Result<Graph> Run() {
    params_ = file_.params();
    opset_ = file_.opset();
    HASE_RETURN_IF_ERROR(TakeSnapshots());
    return Build();
  }

 private:
  std::unexpected<Error> Complain(std::string_view what) const {
    return Invalid(fmt::format("{}: {}", path_.string(), what));
  }

  std::vector<int64_t> Batches() const {
    if (signature_.fixed_batch) return {*signature_.fixed_batch};
    return {std::begin(kProbeBatches), std::end(kProbeBatches)};
  }

  Result<OnnxFile> Optimise(const std::vector<Value>& inputs) {
    file_.SetInputs(inputs);
    HASE_ASSIGN_OR_RETURN(const std::string bytes,
                          OptimiseBasic(file_.Serialise(), path_, scratch_));
    return OnnxFile::Parse(bytes, path_.string());
  }

  // Optimised once with the batch symbolic where that leaves all shapes known; else (a model that
  // computes shapes from its batch) optimised anew for each batch, which folds that arithmetic.
  Status TakeSnapshots() {
    HASE_ASSIGN_OR_RETURN(OnnxFile once, Optimise(signature_.inputs));
    for (const int64_t batch : Batches()) {
      HASE_RETURN_IF_ERROR(Snap(once, batch));
      if (Unresolved(snapshots_.back())) break;
    }
    if (!Unresolved(snapshots_.back())) {
      optimised_ = std::make_unique<OnnxFile>(std::move(once));
      return {};
    }
    snapshots_.clear();
    for (const int64_t batch : Batches()) {
      HASE_ASSIGN_OR_RETURN(OnnxFile fixed, Optimise(signature_.At(batch)));
      HASE_RETURN_IF_ERROR(Snap(fixed, batch));
      if (const auto node = Unresolved(snapshots_.back())) {
        return Complain(
            fmt::format("{}: its output shape depends on more than the input shapes and "
                        "cannot be resolved",
                        *node));
      }
      optimised_ = std::make_unique<OnnxFile>(std::move(fixed));
    }
    return CompareSnapshots();
  }

  Status Snap(OnnxFile& optimised, int64_t batch) {
    HASE_ASSIGN_OR_RETURN(ShapeOf shapes, Probe(optimised, signature_.At(batch), path_.string()));
    snapshots_.push_back({batch, optimised.nodes(), std::move(shapes)});
    return {};
  }

  Status CompareSnapshots() const {
    const auto& first = snapshots_.front().nodes;
    for (const Snapshot& snapshot : snapshots_) {
      const bool same = std::ranges::equal(first, snapshot.nodes, [](const auto& a, const auto& b) {
        return a.node.op == b.node.op && a.outputs == b.outputs;
      });
      if (!same) {
        return Complain(
            fmt::format("its graph at batch {} differs from that at batch {}; fix the "
                        "batch with --dim",
                        snapshot.batch, snapshots_.front().batch));
      }
    }
    return {};
  }

  // The affine shape of a tensor over the probed batches.
  Result<SymbolicShape> ShapeOverBatches(const std::string& tensor, const std::string& node) const {
    SymbolicShape shape;
    const Shape& first = snapshots_.front().shapes.at(tensor).shape;
    for (size_t i = 0; i < first.size(); ++i) {
      Dim dim{.fixed = first[i], .per_batch = 0};
      if (snapshots_.size() > 1) {
        const Shape& second = snapshots_[1].shapes.at(tensor).shape;
        dim.per_batch = i < second.size() ? second[i] - first[i] : 0;
        dim.fixed = first[i] - dim.per_batch * snapshots_.front().batch;
      }
      for (const Snapshot& snapshot : snapshots_) {
        const Shape& seen = snapshot.shapes.at(tensor).shape;
        if (seen.size() != first.size() || dim.At(snapshot.batch) != seen[i]) {
          return Complain(
              fmt::format("node '{}': dimension {} of '{}' does not grow evenly with the "
                          "batch; fix the batch with --dim",
                          node, i, tensor));
        }
      }
      shape.push_back(dim);
    }
    return shape;
  }

  Result<int> AddTensor(const std::string& name, const std::string& node) {
    if (name.empty()) return kAbsent;
    if (const auto known = index_.find(name); known != index_.end()) return known->second;
    for (const Snapshot& snapshot : snapshots_) {
      if (!snapshot.shapes.contains(name)) {
        return Complain(fmt::format("node '{}': tensor '{}' has no shape", node, name));
      }
    }
    Tensor tensor{.shape = {}, .type = snapshots_.front().shapes.at(name).type, .constant = false};
    HASE_ASSIGN_OR_RETURN(tensor.shape, ShapeOverBatches(name, node));
    return Add(name, std::move(tensor));
  }

  int Add(const std::string& name, Tensor tensor) {
    const int index = static_cast<int>(graph_.tensors.size());
    graph_.tensors.push_back(std::move(tensor));
    index_.emplace(name, index);
    return index;
  }

  Result<Graph> Build() {
    graph_.model = path_.stem().string();
    graph_.params = params_;
    graph_.opset = opset_;
    graph_.fixed_batch = signature_.fixed_batch;
    for (const Value& input : signature_.inputs) {
      HASE_ASSIGN_OR_RETURN(const int index, AddTensor(input.name, "(input)"));
      graph_.inputs.push_back(index);
      graph_.input_names.push_back(input.name);
    }
    for (const auto& weight : optimised_->initialisers()) {
      SymbolicShape shape;
      for (const int64_t dim : weight.dims) shape.push_back({.fixed = dim, .per_batch = 0});
      if (!index_.contains(weight.name)) Add(weight.name, {std::move(shape), weight.type, true});
    }
    for (FileNode& file_node : snapshots_.front().nodes) HASE_RETURN_IF_ERROR(AddNode(file_node));
    for (const auto& output : optimised_->outputs()) {
      HASE_ASSIGN_OR_RETURN(const int index, AddTensor(output, "(output)"));
      graph_.outputs.push_back(index);
    }
    if (const auto sound = graph_.Check(); !sound) return Complain(sound.error().message);
    return std::move(graph_);
  }

  Status AddNode(FileNode& file_node) {
    Node node = std::move(file_node.node);
    for (const auto& input : file_node.inputs) {
      HASE_ASSIGN_OR_RETURN(const int index, AddTensor(input, node.name));
      node.inputs.push_back(index);
    }
    for (const auto& output : file_node.outputs) {
      HASE_ASSIGN_OR_RETURN(const int index, AddTensor(output, node.name));
      node.outputs.push_back(index);
    }
    if (node.window) FinishWindow(file_node, node);
    if (node.op == "Conv") HASE_RETURN_IF_ERROR(CheckChannels(node));
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  // ONNX Runtime finds this out only when it runs.
  Status CheckChannels(const Node& node) const {
    const auto& input = graph_.tensors[static_cast<size_t>(node.inputs[0])].shape;
    const auto& weight = graph_.tensors[static_cast<size_t>(node.inputs[1])].shape;
    if (input.size() < 3 || weight.size() != input.size()) {
      return Complain(fmt::format("node '{}' (Conv): its input has {} dimensions, its weight {}",
                                  node.name, input.size(), weight.size()));
    }
    const int64_t wanted = weight[1].fixed * node.window->groups;
    if (input[1].per_batch == 0 && input[1].fixed != wanted) {
      return Complain(
          fmt::format("node '{}' (Conv): its input has {} channels, its weight is for {}",
                      node.name, input[1].fixed, wanted));
    }
    return {};
  }

  // What the file leaves to be inferred: the kernel's size from the weight, automatic padding.
  void FinishWindow(const FileNode& file_node, Node& node) const {
    const auto shape = [&](int index) -> SymbolicShape {
      return index == kAbsent ? SymbolicShape{} : graph_.tensors[static_cast<size_t>(index)].shape;
    };
    Window& window = *node.window;
    const size_t weight_at = node.op == "QLinearConv" ? 3 : 1;
    if (!file_node.has_kernel_shape && node.inputs.size() > weight_at) {
      const SymbolicShape weight = shape(node.inputs[weight_at]);
      for (size_t i = 0; i < 2 && weight.size() > 2 + i; ++i) {
        window.kernel[1 - i] = static_cast<int32_t>(weight[weight.size() - 1 - i].fixed);
      }
    }
    if (!file_node.automatic_padding || node.inputs.empty() || node.outputs.empty()) return;
    const SymbolicShape in = shape(node.inputs[0]), out = shape(node.outputs[0]);
    for (size_t i = 0; i < 2 && in.size() > 2 + i && in.size() == out.size(); ++i) {
      const int64_t reach = (out[out.size() - 1 - i].fixed - 1) * window.stride[1 - i] +
                            (window.kernel[1 - i] - 1) * int64_t{window.dilation[1 - i]} + 1;
      const int64_t total = std::max<int64_t>(0, reach - in[in.size() - 1 - i].fixed);
      window.pad[1 - i] = static_cast<int32_t>(total / 2);
      window.pad[3 - i] = static_cast<int32_t>(total - total / 2);
    }
  }

  const fs::path& path_;
  const fs::path& scratch_;
  OnnxFile file_;
  std::unique_ptr<OnnxFile> optimised_;
  const Signature signature_;
  std::vector<Snapshot> snapshots_;
  std::unordered_map<std::string, int> index_;
  Graph graph_;
  int64_t params_ = 0;
  int opset_ = 0;
};

}  // namespace

Result<ScratchFolder> ScratchFolder::Create() {
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "hase-XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    return Unavailable(fmt::format(
        "{}: cannot create a temporary folder; set TMPDIR to one that is writable", folder));
  }
  return ScratchFolder(folder);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<Graph> Lower(const fs::path& onnx, const LowerOptions& options) {
  HASE_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Read(onnx));
  HASE_ASSIGN_OR_RETURN(Signature signature, ReadSignature(onnx.string(), file, options));
  if (!options.scratch.empty()) {
    return Lowering(onnx, options.scratch, std::move(file), std::move(signature)).Run();
  }
  HASE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  return Lowering(onnx, scratch.path(), std::move(file), std::move(signature)).Run();
}

}  // namespace hase::model

// Checks of a parsed ONNX model that come before ONNX Runtime sees it, each with a message that
// names the node, tensor or file. What is not checked here (types, attributes, shapes) ONNX Runtime
// checks.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "model/element_type.h"
#include "model/kernel.h"
#include "model/onnx/file.h"
#include "model/onnx/proto.h"

namespace hase::model::onnx_file {
namespace {

namespace fs = std::filesystem;
using NameSet = std::unordered_set<std::string>;

std::string Describe(const onnx::NodeProto& node) {
  return fmt::format("node '{}' ({})",
                     node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(),
                     node.op_type());
}

class Checker {
 public:
  explicit Checker(const fs::path& path) : path_(path) {}

  Status Run(const onnx::ModelProto& model) {
    if (!model.has_graph()) return Complain("holds no graph: not an ONNX model");
    const int opset = OpsetOf(model);
    if (opset < kOldestOpset || opset > kNewestOpset) {
      return Complain(fmt::format("opset {} is not supported: HASE reads {} to {}; export it anew",
                                  opset, kOldestOpset, kNewestOpset));
    }
    for (const auto& function : model.functions()) {
      for (const auto& node : function.node()) HASE_RETURN_IF_ERROR(CheckAttributes(node));
    }
    HASE_RETURN_IF_ERROR(CheckInputs(model.graph()));
    return CheckGraph(model.graph(), {});
  }

 private:
  std::unexpected<Error> Complain(std::string_view what) const {
    return Invalid(fmt::format("{}: {}", path_.string(), what));
  }

  Status CheckInputs(const onnx::GraphProto& graph) const {
    if (graph.node_size() == 0) return Complain("the graph holds no nodes");
    if (graph.output_size() == 0) return Complain("the graph has no outputs");
    NameSet weights;
    for (const auto& tensor : graph.initializer()) weights.insert(tensor.name());
    int inputs = 0;
    for (const auto& input : graph.input()) {
      if (weights.contains(input.name())) continue;
      ++inputs;
      if (!input.type().has_tensor_type()) {
        return Complain(fmt::format("input '{}' is not a tensor", input.name()));
      }
      if (!input.type().tensor_type().has_shape()) {
        return Complain(fmt::format("input '{}' states no shape", input.name()));
      }
      for (const auto& dim : input.type().tensor_type().shape().dim()) {
        if (dim.has_dim_value() && dim.dim_value() <= 0) {
          return Complain(fmt::format("input '{}' has dimension {}; dimensions must be at least 1",
                                      input.name(), dim.dim_value()));
        }
      }
    }
    if (inputs == 0) return Complain("the graph has no inputs: nothing depends on a batch");
    return {};
  }

  // Names defined once, read only where defined, in an order without a cycle; then the tensors.
  Status CheckGraph(const onnx::GraphProto& graph, const NameSet& outer) {
    NameSet given = outer;
    NameSet weights;
    for (const auto& tensor : graph.initializer()) {
      if (!weights.insert(tensor.name()).second) {
        return Complain(fmt::format("initialiser '{}' is defined twice", tensor.name()));
      }
      HASE_RETURN_IF_ERROR(CheckTensor(tensor, "initialiser"));
    }
    for (const auto& tensor : graph.sparse_initializer()) {
      HASE_RETURN_IF_ERROR(CheckTensor(tensor.values(), "initialiser"));
      HASE_RETURN_IF_ERROR(CheckTensor(tensor.indices(), "initialiser"));
      weights.insert(tensor.values().name());
    }
    given.insert(weights.begin(), weights.end());
    for (const auto& input : graph.input()) given.insert(input.name());
    NameSet everything = given;
    std::unordered_map<std::string, int> maker;
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const auto& output : graph.node(i).output()) {
        if (output.empty()) continue;
        if (!maker.emplace(output, i).second || !everything.insert(output).second) {
          return Complain(
              fmt::format("{} makes '{}', which exists already", Describe(graph.node(i)), output));
        }
      }
    }
    for (const auto& node : graph.node()) HASE_RETURN_IF_ERROR(CheckNode(node, everything));
    for (const auto& output : graph.output()) {
      if (!everything.contains(output.name())) {
        return Complain(fmt::format("output '{}' is made by no node", output.name()));
      }
    }
    return CheckOrder(graph, maker);
  }

  Status CheckNode(const onnx::NodeProto& node, const NameSet& names) {
    for (const auto& input : node.input()) {
      if (!input.empty() && !names.contains(input)) {
        return Complain(fmt::format("{} reads '{}', which is no input, initialiser or node output",
                                    Describe(node), input));
      }
    }
    HASE_RETURN_IF_ERROR(CheckAttributes(node));
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) HASE_RETURN_IF_ERROR(CheckGraph(attribute.g(), names));
      for (const auto& graph : attribute.graphs()) HASE_RETURN_IF_ERROR(CheckGraph(graph, names));
    }
    return {};
  }

  Status CheckAttributes(const onnx::NodeProto& node) {
    const std::string where = fmt::format("a tensor attribute of {}", Describe(node));
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_t()) HASE_RETURN_IF_ERROR(CheckTensor(attribute.t(), where));
      for (const auto& tensor : attribute.tensors()) {
        HASE_RETURN_IF_ERROR(CheckTensor(tensor, where));
      }
      if (attribute.has_sparse_tensor()) {
        HASE_RETURN_IF_ERROR(CheckTensor(attribute.sparse_tensor().values(), where));
        HASE_RETURN_IF_ERROR(CheckTensor(attribute.sparse_tensor().indices(), where));
      }
    }
    return {};
  }

  // Kahn's algorithm; whatever is left waits for itself.
  Status CheckOrder(const onnx::GraphProto& graph,
                    const std::unordered_map<std::string, int>& maker) const {
    const auto count = static_cast<size_t>(graph.node_size());
    std::vector<int> waits(count, 0);
    std::vector<std::vector<int>> next(count);
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const auto& input : graph.node(i).input()) {
        const auto from = maker.find(input);
        if (from == maker.end()) continue;
        next[static_cast<size_t>(from->second)].push_back(i);
        ++waits[static_cast<size_t>(i)];
      }
    }
    std::vector<int> ready;
    for (size_t i = 0; i < count; ++i) {
      if (waits[i] == 0) ready.push_back(static_cast<int>(i));
    }
    size_t done = 0;
    while (!ready.empty()) {
      const int node = ready.back();
      ready.pop_back();
      ++done;
      for (const int follower : next[static_cast<size_t>(node)]) {
        if (--waits[static_cast<size_t>(follower)] == 0) ready.push_back(follower);
      }
    }
    if (done == count) return {};
    const auto stuck = std::ranges::find_if(waits, [](int w) { return w > 0; }) - waits.begin();
    return Complain(fmt::format("the graph has a cycle through {}",
                                Describe(graph.node(static_cast<int>(stuck)))));
  }

  Status CheckTensor(const onnx::TensorProto& tensor, std::string_view where) {
    const Shape dims(tensor.dims().begin(), tensor.dims().end());
    const std::string what = fmt::format("{} '{}'", where, tensor.name());
    for (const int64_t dim : dims) {
      if (dim < 0) return Complain(fmt::format("{} has the negative dimension {}", what, dim));
    }
    const int width = BytesOf(FromOnnx(tensor.data_type()));
    const auto count = ElementCount(dims);
    int64_t bytes = 0;
    if (!count || __builtin_mul_overflow(*count, int64_t{width}, &bytes)) {
      return Complain(
          fmt::format("{} of shape [{}] overflows 64 bits", what, fmt::join(dims, ",")));
    }
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
      return CheckExternal(tensor, what, width > 0 ? bytes : 0);
    }
    if (width == 0) return {};  // strings, 4-bit and 8-bit floats: ONNX Runtime judges them
    const int64_t held = Held(tensor, width);
    if (held == bytes) return {};
    return Complain(fmt::format("{} of shape [{}] needs {} bytes, the file holds {}", what,
                                fmt::join(dims, ","), bytes, held));
  }

  // Bytes of data inside the file, in the tensor's own width.
  static int64_t Held(const onnx::TensorProto& tensor, int width) {
    if (tensor.has_raw_data()) return static_cast<int64_t>(tensor.raw_data().size());
    // Each type has its own list in the file, and narrow types share int32_data.
    const int64_t elements = tensor.float_data_size() + tensor.int32_data_size() +
                             tensor.int64_data_size() + tensor.double_data_size() +
                             tensor.uint64_data_size();
    return elements * width;
  }

  Status CheckExternal(const onnx::TensorProto& tensor, const std::string& what, int64_t bytes) {
    std::string location;
    int64_t offset = 0, length = bytes;
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() != "offset" && entry.key() != "length") continue;
      int64_t value = 0;
      const char* end = entry.value().data() + entry.value().size();
      const auto parsed = std::from_chars(entry.value().data(), end, value);
      if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) {
        return Complain(
            fmt::format("{}: external {} '{}' is no size", what, entry.key(), entry.value()));
      }
      (entry.key() == "offset" ? offset : length) = value;
    }
    HASE_ASSIGN_OR_RETURN(const fs::path file, Confine(location, what));
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(file, error));
    int64_t end = 0;
    if (error || __builtin_add_overflow(offset, length, &end) || end > size) {
      return Complain(fmt::format("{}: its weights reach to byte {}+{} of '{}', which holds {}",
                                  what, offset, length, location, error ? 0 : size));
    }
    if (bytes != 0 && length != bytes) {
      return Complain(
          fmt::format("{} needs {} bytes, its external data states {}", what, bytes, length));
    }
    return {};
  }

  // The file of external weights, which must really lie in the model's folder or below.
  Result<fs::path> Confine(const std::string& location, const std::string& what) const {
    const fs::path relative(location);
    if (location.empty()) return Complain(what + ": external data without a location");
    const bool climbs = std::ranges::find(relative, fs::path("..")) != relative.end();
    if (relative.is_absolute() || climbs) {
      return Complain(
          fmt::format("{}: external weights '{}' lie outside the model's folder", what, location));
    }
    std::error_code error;
    const fs::path folder = fs::canonical(fs::absolute(path_).parent_path(), error);
    const fs::path file = fs::canonical(folder / relative, error);
    if (error) {
      return Complain(fmt::format("{}: external weights '{}' are missing", what, location));
    }
    const auto [in_folder, in_file] =
        std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
    if (in_folder != folder.end()) {
      return Complain(
          fmt::format("{}: external weights '{}' lie outside the model's folder (a "
                      "symbolic link leads to {})",
                      what, location, file.string()));
    }
    if (!fs::is_regular_file(file, error)) {
      return Complain(fmt::format("{}: external weights '{}' are no file", what, location));
    }
    return file;
  }

  const fs::path& path_;
};

}  // namespace

int OpsetOf(const onnx::ModelProto& model) {
  for (const auto& entry : model.opset_import()) {
    if (entry.domain().empty() || entry.domain() == "ai.onnx") {
      return static_cast<int>(std::clamp<int64_t>(entry.version(), 0, 1 << 20));
    }
  }
  return 0;
}

Status CheckModel(const onnx::ModelProto& model, const fs::path& path) {
  return Checker(path).Run(model);
}

}  // namespace hase::model::onnx_file

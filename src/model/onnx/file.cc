#include "model/onnx/file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "model/onnx/proto.h"

namespace hase::model::onnx_file {
namespace {

namespace fs = std::filesystem;

// Protobuf's own limit; larger models keep their weights in external files.
constexpr int64_t kFileLimit = INT32_MAX;

Status ParseInto(onnx::ModelProto& model, std::string_view bytes, const std::string& name) {
  if (bytes.empty()) return Invalid(fmt::format("{}: the file is empty", name));
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(INT32_MAX);
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return Invalid(
        fmt::format("{}: not an ONNX model, or truncated (its protobuf does not parse)", name));
  }
  return {};
}

const onnx::AttributeProto* Find(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

// The last two of an integer list attribute (one-dimensional windows have height 1).
std::array<int32_t, 2> LastTwo(const onnx::NodeProto& node, std::string_view name,
                               int32_t fallback) {
  std::array<int32_t, 2> pair = {name == "kernel_shape" ? 1 : fallback, fallback};
  const auto* attribute = Find(node, name);
  if (attribute == nullptr) return {fallback, fallback};
  const int n = attribute->ints_size();
  const auto narrow = [](int64_t v) {
    return static_cast<int32_t>(std::clamp<int64_t>(v, 0, 1 << 24));
  };
  if (n >= 1) pair[1] = narrow(attribute->ints(n - 1));
  pair[0] = n >= 2 ? narrow(attribute->ints(n - 2)) : (name == "kernel_shape" ? 1 : fallback);
  return pair;
}

Window WindowOf(const onnx::NodeProto& node) {
  Window window;
  window.kernel = LastTwo(node, "kernel_shape", 1);
  window.stride = LastTwo(node, "strides", 1);
  window.dilation = LastTwo(node, "dilations", 1);
  if (const auto* pads = Find(node, "pads"); pads != nullptr && pads->ints_size() >= 2) {
    const int n = pads->ints_size() / 2;  // begins, then ends
    const auto at = [&](int i) {
      return static_cast<int32_t>(std::clamp<int64_t>(pads->ints(i), 0, 1 << 24));
    };
    window.pad = {n >= 2 ? at(n - 2) : 0, at(n - 1), n >= 2 ? at(2 * n - 2) : 0, at(2 * n - 1)};
  }
  if (const auto* group = Find(node, "group")) {
    window.groups = static_cast<int32_t>(std::clamp<int64_t>(group->i(), 1, 1 << 24));
  }
  return window;
}

bool HasWindow(const std::string& op) {
  return op.find("Conv") != std::string::npos ||
         (op.ends_with("Pool") && !op.starts_with("Global"));
}

float FloatOf(const onnx::NodeProto& node, std::string_view name, float fallback) {
  const auto* attribute = Find(node, name);
  return attribute != nullptr && attribute->type() == onnx::AttributeProto::FLOAT ? attribute->f()
                                                                                  : fallback;
}

std::string TextOf(const onnx::NodeProto& node, std::string_view name,
                   const std::string& fallback) {
  const auto* attribute = Find(node, name);
  return attribute != nullptr ? attribute->s() : fallback;
}

// Whether ONNX Runtime's blocked layout has a kernel for this resize.
bool IsBlockable(const onnx::NodeProto& node) {
  const std::string mode = TextOf(node, "mode", "nearest");
  if (node.op_type() == "Upsample") return mode == "nearest" || mode == "linear";
  const std::string coordinates = TextOf(node, "coordinate_transformation_mode", "");
  if (mode == "nearest") {
    return coordinates == "asymmetric" && TextOf(node, "nearest_mode", "") == "floor";
  }
  return mode == "linear" && (coordinates == "asymmetric" || coordinates == "align_corners" ||
                              coordinates == "half_pixel");
}

// The facts of kKeptAttributes that this node has.
std::vector<std::string_view> DerivedFacts(const onnx::NodeProto& node) {
  std::vector<std::string_view> facts;
  const std::string& op = node.op_type();
  if ((op == "Resize" || op == "Upsample") && IsBlockable(node)) facts.push_back("blockable");
  if (op == "BatchNormalization" && Find(node, "epsilon") != nullptr) {
    facts.push_back("epsilon_given");
  }
  if (op == "HardSigmoid" && std::abs(FloatOf(node, "alpha", 0.2F) - 1.0F / 6) < 1e-6F &&
      std::abs(FloatOf(node, "beta", 0.5F) - 0.5F) < 1e-6F) {
    facts.push_back("hard_swish");
  }
  if (const auto* perm = Find(node, "perm"); perm != nullptr && op == "Transpose") {
    const std::vector<int64_t> order(perm->ints().begin(), perm->ints().end());
    if (order == std::vector<int64_t>{0, 2, 3, 1}) facts.push_back("to_nhwc");
    if (order == std::vector<int64_t>{0, 3, 1, 2}) facts.push_back("from_nhwc");
  }
  return facts;
}

FileNode Convert(const onnx::NodeProto& proto) {
  FileNode converted;
  Node& node = converted.node;
  node.op = proto.op_type();
  node.name = !proto.name().empty()     ? proto.name()
              : proto.output_size() > 0 ? proto.output(0)
                                        : proto.op_type();
  node.output_names.assign(proto.output().begin(), proto.output().end());
  if (HasWindow(node.op)) {
    node.window = WindowOf(proto);
    converted.has_kernel_shape = Find(proto, "kernel_shape") != nullptr;
    const auto* padding = Find(proto, "auto_pad");
    converted.automatic_padding = padding != nullptr && padding->s().starts_with("SAME");
  }
  for (const auto key : kKeptAttributes) {
    const auto* attribute = Find(proto, key);
    if (attribute == nullptr || attribute->type() != onnx::AttributeProto::INT) continue;
    node.attributes[std::string(key)] =
        std::clamp<int64_t>(attribute->i(), -(int64_t{1} << 32), int64_t{1} << 32);
  }
  for (const auto fact : DerivedFacts(proto)) node.attributes[std::string(fact)] = 1;
  converted.inputs.assign(proto.input().begin(), proto.input().end());
  converted.outputs.assign(proto.output().begin(), proto.output().end());
  return converted;
}

int64_t Elements(const onnx::TensorProto& tensor) {
  return ElementCount(Shape(tensor.dims().begin(), tensor.dims().end())).value_or(0);
}

Value Describe(const onnx::ValueInfoProto& info) {
  Value value{.name = info.name(),
              .type = FromOnnx(info.type().tensor_type().elem_type()),
              .dims = {},
              .symbols = {}};
  for (const auto& dim : info.type().tensor_type().shape().dim()) {
    value.dims.push_back(dim.has_dim_value() ? dim.dim_value() : kUnknownDim);
    value.symbols.push_back(dim.has_dim_param() ? dim.dim_param() : "");
  }
  return value;
}

std::set<std::string> InitialiserNames(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  return names;
}

}  // namespace

struct OnnxFile::State {
  onnx::ModelProto model;
};

OnnxFile::OnnxFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnnxFile::OnnxFile(OnnxFile&&) noexcept = default;
OnnxFile& OnnxFile::operator=(OnnxFile&&) noexcept = default;
OnnxFile::~OnnxFile() = default;

Result<OnnxFile> OnnxFile::Read(const fs::path& path) {
  HASE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kFileLimit));
  HASE_ASSIGN_OR_RETURN(OnnxFile file, Parse(bytes, path.string()));
  HASE_RETURN_IF_ERROR(CheckModel(file.state_->model, path));
  return file;
}

Result<OnnxFile> OnnxFile::Parse(std::string_view bytes, const std::string& name) {
  auto state = std::make_unique<State>();
  HASE_RETURN_IF_ERROR(ParseInto(state->model, bytes, name));
  return OnnxFile(std::move(state));
}

int OnnxFile::opset() const { return OpsetOf(state_->model); }

int64_t OnnxFile::params() const {
  const auto& graph = state_->model.graph();
  std::set<std::string> statistics;  // running mean and variance are no parameters
  for (const auto& node : graph.node()) {
    if (node.op_type() != "BatchNormalization") continue;
    for (int i = 3; i < std::min(5, node.input_size()); ++i) statistics.insert(node.input(i));
  }
  int64_t sum = 0;
  for (const auto& tensor : graph.initializer()) {
    if (IsFloating(FromOnnx(tensor.data_type())) && !statistics.contains(tensor.name())) {
      sum += Elements(tensor);
    }
  }
  return sum;
}

std::vector<Value> OnnxFile::inputs() const {
  const auto& graph = state_->model.graph();
  const auto weights = InitialiserNames(graph);
  std::vector<Value> values;
  for (const auto& input : graph.input()) {
    if (!weights.contains(input.name())) values.push_back(Describe(input));
  }
  return values;
}

std::vector<std::string> OnnxFile::outputs() const {
  std::vector<std::string> names;
  for (const auto& output : state_->model.graph().output()) names.push_back(output.name());
  return names;
}

std::vector<Initialiser> OnnxFile::initialisers() const {
  std::vector<Initialiser> all;
  for (const auto& tensor : state_->model.graph().initializer()) {
    all.push_back({tensor.name(), FromOnnx(tensor.data_type()),
                   Shape(tensor.dims().begin(), tensor.dims().end())});
  }
  return all;
}

std::vector<FileNode> OnnxFile::nodes() const {
  std::vector<FileNode> nodes;
  for (const auto& node : state_->model.graph().node()) nodes.push_back(Convert(node));
  return nodes;
}

void OnnxFile::SetInputs(const std::vector<Value>& values) {
  auto& graph = *state_->model.mutable_graph();
  for (const Value& value : values) {
    for (auto& input : *graph.mutable_input()) {
      if (input.name() != value.name) continue;
      auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
      shape.clear_dim();
      for (size_t i = 0; i < value.dims.size(); ++i) {
        auto& dim = *shape.add_dim();
        if (value.dims[i] != kUnknownDim) {
          dim.set_dim_value(value.dims[i]);
        } else if (!value.symbols[i].empty()) {
          dim.set_dim_param(value.symbols[i]);
        }
      }
    }
  }
  graph.clear_value_info();
}

std::string OnnxFile::Serialise() const { return state_->model.SerializeAsString(); }

std::string OnnxFile::SerialiseProbe() const {
  // Everything is copied but the weights' values.
  onnx::ModelProto probe;
  probe.set_ir_version(state_->model.ir_version());
  *probe.mutable_opset_import() = state_->model.opset_import();
  *probe.mutable_functions() = state_->model.functions();
  const auto& from = state_->model.graph();
  auto& to = *probe.mutable_graph();
  to.set_name(from.name());
  *to.mutable_node() = from.node();
  *to.mutable_sparse_initializer() = from.sparse_initializer();
  const auto weights = InitialiserNames(from);
  for (const auto& input : from.input()) {
    if (!weights.contains(input.name())) *to.add_input() = input;
  }
  for (const auto& tensor : from.initializer()) {
    if (Elements(tensor) <= kSmallElements) {
      *to.add_initializer() = tensor;
      continue;
    }
    auto& input = *to.add_input();
    input.set_name(tensor.name());
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    for (const int64_t dim : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(dim);
  }
  for (const auto& node : from.node()) {
    for (const auto& output : node.output()) {
      if (!output.empty()) to.add_output()->set_name(output);
    }
  }
  return probe.SerializeAsString();
}

}  // namespace hase::model::onnx_file

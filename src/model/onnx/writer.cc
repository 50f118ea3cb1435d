#include "model/onnx/writer.h"

#include <fmt/format.h>

#include <cstring>

#include "model/onnx/proto.h"

namespace hase::model::onnx_file {

struct OnnxWriter::State {
  onnx::ModelProto model;
  onnx::GraphProto& graph() { return *model.mutable_graph(); }
};

namespace {

constexpr int kIrVersion = 8;
constexpr int kOpset = 17;

void Describe(onnx::ValueInfoProto& info, const std::string& name, const Shape& dims,
              const std::string& batch_symbol) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t size : dims) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (size == 0) {
      dim.set_dim_param(batch_symbol);
    } else {
      dim.set_dim_value(size);
    }
  }
}

void FillTensor(onnx::TensorProto& tensor, const std::string& name, const Shape& dims) {
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor.add_dims(dim);
}

void SetAttribute(onnx::AttributeProto& attribute, const std::string& name,
                  const AttributeValue& value) {
  attribute.set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&value)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t v : std::get<std::vector<int64_t>>(value)) attribute.add_ints(v);
  }
}

}  // namespace

OnnxWriter::OnnxWriter(const std::string& model_name) : state_(std::make_unique<State>()) {
  auto& model = state_->model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("hase");
  model.add_opset_import()->set_version(kOpset);
  state_->graph().set_name(model_name);
}
OnnxWriter::~OnnxWriter() = default;

void OnnxWriter::AddInput(const std::string& name, const Shape& dims,
                          const std::string& batch_symbol) {
  Describe(*state_->graph().add_input(), name, dims, batch_symbol);
}

void OnnxWriter::AddOutput(const std::string& name, const Shape& dims,
                           const std::string& batch_symbol) {
  Describe(*state_->graph().add_output(), name, dims, batch_symbol);
}

void OnnxWriter::AddFloats(const std::string& name, const Shape& dims,
                           const std::function<void(std::span<float>)>& fill) {
  auto& tensor = *state_->graph().add_initializer();
  FillTensor(tensor, name, dims);
  const auto count = static_cast<size_t>(ElementCount(dims).value_or(0));
  std::string& raw = *tensor.mutable_raw_data();
  raw.resize(count * sizeof(float));
  fill({reinterpret_cast<float*>(raw.data()), count});
}

void OnnxWriter::AddInts(const std::string& name, std::span<const int64_t> values) {
  auto& tensor = *state_->graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()),
                                    values.size_bytes());
}

void OnnxWriter::AddConstant(const std::string& name, const Shape& dims,
                             std::span<const float> values) {
  auto& node = *state_->graph().add_node();
  node.set_name(name);
  node.set_op_type("Constant");
  node.add_output(name);
  auto& attribute = *node.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  FillTensor(*attribute.mutable_t(), name, dims);
  attribute.mutable_t()->mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()),
                                                    values.size_bytes());
}

void OnnxWriter::AddNode(const std::string& name, const std::string& op,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const Attributes& attributes) {
  auto& node = *state_->graph().add_node();
  node.set_name(name);
  node.set_op_type(op);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  for (const auto& [key, value] : attributes) SetAttribute(*node.add_attribute(), key, value);
}

Result<std::string> OnnxWriter::Serialise() const {
  std::string bytes;
  if (!state_->model.SerializeToString(&bytes)) {
    return Unavailable("the model does not fit protobuf's limit of 2 GiB");
  }
  return bytes;
}

}  // namespace hase::model::onnx_file

#include "model/zoo/net.h"

#include <cmath>

#include "base/hash.h"

namespace hase::model::zoo {
namespace {

constexpr char kBatch[] = "N";

std::vector<int64_t> WithBatch(int64_t batch, const std::vector<int64_t>& dims) {
  std::vector<int64_t> all = {batch};
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

int64_t OutputSize(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
  return (in + 2 * padding - kernel) / stride + 1;
}

// Uniform in ±deviation·√3 around the mean, by a multiply-xorshift hash of the index: some ten
// times faster than a generator of random numbers, and never zero or denormal.
void FillHashed(std::span<float> values, uint64_t seed, double deviation, double mean) {
  const auto offset = static_cast<float>(mean);
  const auto scale = static_cast<float>(deviation * std::sqrt(3.0) / (1 << 23));
  const auto start = static_cast<uint32_t>(seed ^ seed >> 32);
  for (size_t i = 0; i < values.size(); ++i) {
    auto h = static_cast<uint32_t>(i) * 0x9e3779b9U + start;
    h ^= h >> 16;
    h *= 0x85ebca6bU;
    h ^= h >> 13;
    const auto centred = static_cast<int32_t>(h >> 8) - (1 << 23);
    values[i] = (static_cast<float>(centred) + 0.5F) * scale + offset;
  }
}

}  // namespace

Net::Net(const std::string& model, int64_t batch, uint64_t seed)
    : writer_(model), batch_(batch), seed_(seed) {}

Value Net::Emit(std::string_view op, const std::vector<std::string>& inputs,
                std::vector<int64_t> dims, const std::string& name,
                const onnx_file::Attributes& attributes) {
  writer_.AddNode(name, std::string(op), inputs, {name}, attributes);
  return {name, std::move(dims)};
}

void Net::Random(const std::string& name, const Shape& dims, double deviation, double mean) {
  writer_.AddFloats(name, dims, [&](std::span<float> values) {
    FillHashed(values, Fnv1a64(name, seed_), deviation, mean);
  });
}

Value Net::Input(int64_t channels, int64_t image) {
  writer_.AddInput("images", {batch_, channels, image, image}, kBatch);
  return {"images", {channels, image, image}};
}

Value Net::Conv(const Value& x, const ConvShape& s, const std::string& name) {
  const int64_t padding = (s.kernel - 1) / 2;
  const int64_t fan_in = x.channels() / s.groups * s.kernel * s.kernel;
  Random(name + ".weight", {s.channels, x.channels() / s.groups, s.kernel, s.kernel},
         std::sqrt(s.gain / static_cast<double>(fan_in)));
  std::vector<std::string> inputs = {x.name, name + ".weight"};
  if (s.bias) {
    Random(name + ".bias", {s.channels}, 0.01);
    inputs.push_back(name + ".bias");
  }
  return Emit("Conv", inputs,
              {s.channels, OutputSize(x.height(), s.kernel, s.stride, padding),
               OutputSize(x.width(), s.kernel, s.stride, padding)},
              name,
              {{"dilations", std::vector<int64_t>{1, 1}},
               {"group", s.groups},
               {"kernel_shape", std::vector<int64_t>{s.kernel, s.kernel}},
               {"pads", std::vector<int64_t>(4, padding)},
               {"strides", std::vector<int64_t>{s.stride, s.stride}}});
}

Value Net::BatchNorm(const Value& x, const std::string& name, double gain, float epsilon) {
  const Shape dims = {x.channels()};
  Random(name + ".weight", dims, 0.05 * gain, gain);
  Random(name + ".bias", dims, 0.05);
  Random(name + ".running_mean", dims, 0.05);
  Random(name + ".running_var", dims, 0.05, 1);
  return Emit(
      "BatchNormalization",
      {x.name, name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"},
      x.dims, name, {{"epsilon", epsilon}});
}

Value Net::Activate(const Value& x, Activation activation, const std::string& name) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return Emit("Relu", {x.name}, x.dims, name);
    case Activation::kRelu6:
      writer_.AddConstant(name + ".min", {}, std::vector{0.0F});
      writer_.AddConstant(name + ".max", {}, std::vector{6.0F});
      return Emit("Clip", {x.name, name + ".min", name + ".max"}, x.dims, name);
    case Activation::kSilu:
      return Combine("Mul", x, Sigmoid(x, name + ".sigmoid"), name);
    case Activation::kHardSwish:
      return Emit("HardSwish", {x.name}, x.dims, name);
    case Activation::kHardSigmoid:
      return Emit("HardSigmoid", {x.name}, x.dims, name, {{"alpha", 1.0F / 6}});
    case Activation::kLeakyRelu:
      return Emit("LeakyRelu", {x.name}, x.dims, name, {{"alpha", 0.1F}});
  }
  return x;
}

Value Net::MaxPool(const Value& x, int64_t kernel, int64_t stride, int64_t padding,
                   const std::string& name) {
  return Emit("MaxPool", {x.name},
              {x.channels(), OutputSize(x.height(), kernel, stride, padding),
               OutputSize(x.width(), kernel, stride, padding)},
              name,
              {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
               {"pads", std::vector<int64_t>(4, padding)},
               {"strides", std::vector<int64_t>{stride, stride}}});
}

Value Net::AveragePool(const Value& x, int64_t kernel, int64_t stride, const std::string& name) {
  return Emit("AveragePool", {x.name},
              {x.channels(), OutputSize(x.height(), kernel, stride, 0),
               OutputSize(x.width(), kernel, stride, 0)},
              name,
              {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
               {"strides", std::vector<int64_t>{stride, stride}}});
}

Value Net::GlobalPool(const Value& x, const std::string& name) {
  return Emit("GlobalAveragePool", {x.name}, {x.channels(), 1, 1}, name);
}

Value Net::Flatten(const Value& x, const std::string& name) {
  return Emit("Flatten", {x.name}, {x.channels() * x.height() * x.width()}, name,
              {{"axis", int64_t{1}}});
}

Value Net::Linear(const Value& x, int64_t features, const std::string& name) {
  Random(name + ".weight", {features, x.channels()},
         std::sqrt(2.0 / static_cast<double>(x.channels())));
  Random(name + ".bias", {features}, 0.01);
  return Emit("Gemm", {x.name, name + ".weight", name + ".bias"}, {features}, name,
              {{"transB", int64_t{1}}});
}

Value Net::Combine(std::string_view op, const Value& a, const Value& b, const std::string& name) {
  return Emit(op, {a.name, b.name}, a.dims, name);
}

Value Net::Sigmoid(const Value& x, const std::string& name) {
  return Emit("Sigmoid", {x.name}, x.dims, name);
}

Value Net::Concat(const std::vector<Value>& values, int64_t axis, const std::string& name) {
  std::vector<std::string> inputs;
  std::vector<int64_t> dims = values[0].dims;
  const auto at = static_cast<size_t>(axis - 1);
  dims[at] = 0;
  for (const Value& value : values) {
    inputs.push_back(value.name);
    dims[at] += value.dims[at];
  }
  return Emit("Concat", inputs, std::move(dims), name, {{"axis", axis}});
}

Value Net::Softmax(const Value& x, int64_t axis, const std::string& name) {
  return Emit("Softmax", {x.name}, x.dims, name, {{"axis", axis}});
}

std::vector<Value> Net::Split(const Value& x, int64_t axis, const std::vector<int64_t>& sizes,
                              const std::string& name) {
  writer_.AddInts(name + ".sizes", sizes);
  std::vector<Value> parts;
  std::vector<std::string> outputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> dims = x.dims;
    dims[static_cast<size_t>(axis - 1)] = sizes[i];
    outputs.push_back(name + "." + std::to_string(i));
    parts.push_back({outputs.back(), std::move(dims)});
  }
  writer_.AddNode(name, "Split", {x.name, name + ".sizes"}, outputs, {{"axis", axis}});
  return parts;
}

Value Net::Upsample(const Value& x, int64_t factor, const std::string& name) {
  const auto f = static_cast<float>(factor);
  writer_.AddConstant(name + ".scales", {4}, std::vector{1.0F, 1.0F, f, f});
  return Emit("Resize", {x.name, "", name + ".scales"},
              {x.channels(), x.height() * factor, x.width() * factor}, name,
              {{"coordinate_transformation_mode", std::string("asymmetric")},
               {"mode", std::string("nearest")},
               {"nearest_mode", std::string("floor")}});
}

Value Net::PadCorner(const Value& x, const std::string& name) {
  writer_.AddInts(name + ".pads", std::vector<int64_t>{0, 0, 0, 0, 0, 0, 1, 1});
  return Emit("Pad", {x.name, name + ".pads"}, {x.channels(), x.height() + 1, x.width() + 1}, name);
}

Value Net::Reshape(const Value& x, const std::vector<int64_t>& dims, const std::string& name) {
  writer_.AddInts(name + ".shape", WithBatch(0, dims));  // 0 keeps the batch
  return Emit("Reshape", {x.name, name + ".shape"}, dims, name);
}

Value Net::Transpose(const Value& x, const std::vector<int64_t>& order, const std::string& name) {
  std::vector<int64_t> dims;
  for (const int64_t axis : order) dims.push_back(x.dims[static_cast<size_t>(axis - 1)]);
  return Emit("Transpose", {x.name}, std::move(dims), name, {{"perm", WithBatch(0, order)}});
}

Value Net::WithConstant(std::string_view op, const Value& x, const std::vector<int64_t>& dims,
                        const std::vector<float>& values, const std::string& name) {
  writer_.AddConstant(name + ".value", dims.empty() ? Shape{} : WithBatch(1, dims), values);
  return Emit(op, {x.name, name + ".value"}, x.dims, name);
}

Value Net::ConstantMinus(const std::vector<int64_t>& dims, const std::vector<float>& values,
                         const Value& x, const std::string& name) {
  writer_.AddConstant(name + ".value", WithBatch(1, dims), values);
  return Emit("Sub", {name + ".value", x.name}, x.dims, name);
}

void Net::Output(const Value& x) { writer_.AddOutput(x.name, WithBatch(batch_, x.dims), kBatch); }

}  // namespace hase::model::zoo

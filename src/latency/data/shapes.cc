#include "latency/data/shapes.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace hase::latency {

using model::Kernel;
using model::OpClass;
using model::Shape;

namespace {

int64_t WindowOutput(int64_t size, int kernel, int stride, int pad_sum, int dilation) {
  return std::max<int64_t>(1, (size + pad_sum - int64_t{dilation} * (kernel - 1) - 1) / stride + 1);
}

}  // namespace

Kernel ConvKernel(const ConvShape& s) {
  const auto& w = s.window;
  const int64_t out_h = s.out_height > 0 ? s.out_height
                                         : WindowOutput(s.height, w.kernel[0], w.stride[0],
                                                        w.pad[0] + w.pad[2], w.dilation[0]);
  const int64_t out_w = s.out_width > 0 ? s.out_width
                                        : WindowOutput(s.width, w.kernel[1], w.stride[1],
                                                       w.pad[1] + w.pad[3], w.dilation[1]);
  const int64_t per_group = s.in_channels / std::max(1, w.groups);
  Kernel kernel;
  kernel.op = "Conv";
  kernel.op_class = w.groups == 1                                  ? OpClass::kConv
                    : per_group == 1 && s.out_channels == w.groups ? OpClass::kDepthwiseConv
                                                                   : OpClass::kGroupedConv;
  kernel.precision = s.precision;
  kernel.window = w;
  kernel.inputs = {{s.batch, s.in_channels, s.height, s.width},
                   {s.out_channels, per_group, w.kernel[0], w.kernel[1]}};
  if (s.bias) kernel.inputs.push_back({s.out_channels});
  kernel.output = {s.batch, s.out_channels, out_h, out_w};
  kernel.fused_add = s.fused_add;
  kernel.activation = s.activation;
  kernel.m = s.batch * out_h * out_w;
  kernel.n = s.out_channels / std::max(1, w.groups);
  kernel.k = per_group * w.kernel[0] * w.kernel[1];
  kernel.gemm_batch = std::max(1, w.groups);
  kernel.flops = 2 * kernel.m * kernel.n * kernel.k * kernel.gemm_batch;
  const int64_t element = BytesPerElement(s.precision);
  const int64_t outputs = s.batch * s.out_channels * out_h * out_w;
  kernel.bytes_activations =
      element * (s.batch * s.in_channels * s.height * s.width + (s.fused_add ? outputs : 0));
  kernel.bytes_weights = element * (s.out_channels * kernel.k + (s.bias ? s.out_channels : 0));
  kernel.bytes_written = element * outputs;
  if (s.fused_add) kernel.op += "+Add";
  return kernel;
}

Kernel GemmKernel(const GemmShape& s) {
  Kernel kernel;
  kernel.op = s.weights ? "Gemm" : "MatMul";
  kernel.op_class = OpClass::kGemm;
  kernel.precision = s.precision;
  const auto shape = [&](int64_t rows, int64_t columns, bool transposed, bool batched) {
    Shape out;
    if (batched) out.push_back(s.batch);
    out.push_back(transposed ? columns : rows);
    out.push_back(transposed ? rows : columns);
    return out;
  };
  kernel.inputs = {shape(s.m, s.k, s.transpose_a, s.batch > 1),
                   shape(s.k, s.n, s.transpose_b, s.batch > 1)};
  if (s.bias) kernel.inputs.push_back({s.n});
  kernel.output = shape(s.m, s.n, false, s.batch > 1);
  kernel.m = s.m, kernel.n = s.n, kernel.k = s.k, kernel.gemm_batch = s.batch;
  kernel.flops = 2 * s.m * s.n * s.k * s.batch;
  const int64_t element = BytesPerElement(s.precision);
  const int64_t right = element * s.batch * s.k * s.n;
  kernel.bytes_activations = element * s.batch * s.m * s.k + (s.weights ? 0 : right);
  kernel.bytes_weights = (s.weights ? right : 0) + (s.bias ? element * s.n : 0);
  kernel.bytes_written = element * s.batch * s.m * s.n;
  return kernel;
}

Kernel ElementwiseKernel(std::string op, int64_t rows, int64_t columns, bool scalar,
                         model::Precision precision) {
  const bool binary = op == "Add" || op == "Mul" || op == "Div" || op == "Pow" || op == "Sub";
  Kernel kernel;
  kernel.op_class = binary                       ? OpClass::kBinary
                    : op == "Softmax"            ? OpClass::kSoftmax
                    : op == "LayerNormalization" ? OpClass::kLayerNorm
                                                 : OpClass::kActivation;
  kernel.op = std::move(op);
  kernel.precision = precision;
  kernel.inputs = {{rows, columns}};
  if (binary) kernel.inputs.push_back(scalar ? Shape{1} : Shape{rows, columns});
  kernel.output = {rows, columns};
  kernel.flops = rows * columns;
  const int64_t bytes = BytesPerElement(precision) * rows * columns;
  kernel.bytes_activations = binary && !scalar ? 2 * bytes : bytes;
  kernel.bytes_written = bytes;
  return kernel;
}

std::string BucketText(const Kernel& k) {
  const auto op = ToString(k.op_class);
  if (k.op_class == OpClass::kGemm || k.op_class == OpClass::kAttention) {
    return fmt::format("{}|{}|{}|{}", op, k.m, k.n, k.k);
  }
  if (k.inputs.empty()) return std::string(op);
  std::string text(op);
  const auto add = [&](const Shape& shape, size_t from) {
    for (size_t i = from; i < shape.size(); ++i) text += fmt::format("|{}", shape[i]);
  };
  const auto& in = k.inputs[0];
  if (in.size() != 4) {  // a plain tensor: its rows are geometry, not batch
    add(in, 0);
    return text;
  }
  add(in, 1);
  text += fmt::format("|{}", k.output.size() > 1 ? k.output[1] : 0);
  const auto& w = k.window;
  return text + fmt::format("|{}|{}|{}|{}|{}", w.kernel[0], w.kernel[1], w.stride[0], w.stride[1],
                            w.groups);
}

int GeometryBucket(const Kernel& kernel) {
  return static_cast<int>(Fnv1a64(BucketText(kernel)) % 10);
}

}  // namespace hase::latency

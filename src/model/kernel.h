// Kernel: one launch of the graph as the runtime will execute it, every shape resolved for the
// asked batch. ModelKernels: the kernels of one model for one runtime, precision and batch, in
// execution order, with the model's memory terms. Both are plain values: they come from ONNX
// Runtime's graph (model/lower.h) or from a *.kernels.json file, and everything after them needs no
// graph.
//
// Counting rules (docs/formats.md, "Counting"): flops = 2 per multiply-add of conv and gemm, 1 per
// output element of elementwise work, k² per output of pooling.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hase::model {

enum class OpClass : uint8_t {
  kConv,
  kDepthwiseConv,
  kGroupedConv,
  kGemm,
  kPool,
  kGlobalPool,
  kBatchNorm,
  kUnary,
  kBinary,
  kActivation,
  kSoftmax,
  kLayerNorm,
  kAttention,
  kDataMovement,
  kResize,
  kReduce,
  kOther,
};
constexpr int kOpClassCount = 17;
enum class Precision : uint8_t { kFp32, kTf32, kFp16, kBf16, kInt8 };
enum class Runtime : uint8_t { kOrtCpu, kOrtCuda, kTensorRt, kPyTorch };

std::string_view ToString(OpClass c);      // "conv", "depthwise_conv", "data_movement" …
std::string_view ToString(Precision p);    // "fp32" …
std::string_view ToString(Runtime r);      // "ort-cpu", "ort-cuda", "tensorrt", "pytorch"
constexpr bool IsConvolution(OpClass c) {  // of any grouping
  return c == OpClass::kConv || c == OpClass::kDepthwiseConv || c == OpClass::kGroupedConv;
}
Result<OpClass> ParseOpClass(std::string_view text);
Result<Precision> ParsePrecision(std::string_view text);
Result<Runtime> ParseRuntime(std::string_view text);
int BytesPerElement(Precision p);

using Shape = std::vector<int64_t>;  // NCHW where spatial
// Product of the dimensions; nullopt if it overflows 64 bits or a dimension is negative.
std::optional<int64_t> ElementCount(const Shape& shape);

// Geometry of a convolution or pooling window. 1-D windows have height 1.
struct Window {
  std::array<int32_t, 2> kernel = {1, 1};  // height, width
  std::array<int32_t, 2> stride = {1, 1};
  std::array<int32_t, 4> pad = {0, 0, 0, 0};  // top, left, bottom, right
  std::array<int32_t, 2> dilation = {1, 1};
  int32_t groups = 1;
  bool operator==(const Window&) const = default;
};

// Bytes that a run touches between a kernel's use of its operands and the use of the same memory
// before it, geometric means over the operands' bytes (reuse.h). 0 = not known, or no such operand.
struct Reuse {
  int64_t activations = 0, weights = 0, output = 0;
  bool operator==(const Reuse&) const = default;
};

struct Kernel {
  // The name under which the runtime's profiler reports it where that is known (ort-cpu), else the
  // graph node's (the first one's, where nodes were fused).
  std::string name;
  std::string op;  // ONNX operator, fused parts joined by '+': "Conv+Add+Relu"
  OpClass op_class = OpClass::kOther;
  Precision precision = Precision::kFp32;
  std::vector<Shape> inputs;  // activations first, then weights
  Shape output;
  Window window;           // conv and pooling only
  bool fused_add = false;  // a residual sum done inside
  std::string activation;  // fused activation, empty if none: "relu", "silu" …
  int64_t flops = 0;
  int64_t bytes_activations = 0;  // read
  int64_t bytes_weights = 0;      // read
  int64_t bytes_written = 0;
  // (Implicit) GEMM: m × n × k, `gemm_batch` of them; zero where there is none. For a convolution
  // m = batch · out_h · out_w, n = out channels per group, k = in channels per group · kernel area,
  // gemm_batch = groups.
  int64_t m = 0, n = 0, k = 0, gemm_batch = 0;
  Reuse reuse;  // ort-cpu only; no part of the geometry

  int64_t bytes() const { return bytes_activations + bytes_weights + bytes_written; }
  double intensity() const;  // flops per byte
  // What an algorithm may save on multiply-adds: 2.25 for 3×3 stride-1 ungrouped convolution, 1
  // else.
  double algorithm_gain() const;
  bool operator==(const Kernel&) const = default;
};

// Text that two kernels share exactly if they are the same launch (everything but the name and
// how warm its memory is).
std::string GeometryKey(const Kernel& kernel, bool with_batch = true);

struct MemoryTerms {
  Bytes weights;            // as the runtime keeps them
  Bytes peak_activations;   // greatest sum of live tensors in execution order
  Bytes arena;              // what ONNX Runtime's CPU arena holds after a run (arena.h)
  Bytes largest_workspace;  // estimate of im2col / algorithm workspace
  Bytes input, output;      // what is copied in and out per run
};

struct ModelKernels {
  std::string model;  // zoo name or file stem
  Runtime runtime = Runtime::kOrtCpu;
  Precision precision = Precision::kFp32;
  int64_t batch = 1;
  std::vector<Kernel> kernels;
  int64_t params = 0;
  int64_t macs = 0;  // of the original graph at this batch
  MemoryTerms memory;
  int64_t total_flops() const;
};

}  // namespace hase::model

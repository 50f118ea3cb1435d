// Kernels from the few numbers a data set gives, counted by the same rules as kernels lowered from
// a graph (docs/formats.md, "Counting"), so that training and prediction see one thing.
#pragma once

#include <string>
#include <string_view>

#include "model/kernel.h"

namespace hase::latency {

struct ConvShape {
  int64_t batch = 1, in_channels = 1, height = 1, width = 1, out_channels = 1;
  model::Window window = {};
  int64_t out_height = 0, out_width = 0;  // 0 = from the window
  model::Precision precision = model::Precision::kFp32;
  bool fused_add = false, bias = false;
  std::string activation = {};
};
model::Kernel ConvKernel(const ConvShape& shape);

// (batch ×) m×k · k×n. A transposed operand shows in its input shape ({k, m} or {n, k}).
struct GemmShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  model::Precision precision = model::Precision::kFp32;
  bool weights = false;  // the right operand is a constant (linear layer): "Gemm", else "MatMul"
  bool bias = false, transpose_a = false, transpose_b = false;
};
model::Kernel GemmKernel(const GemmShape& shape);

// rows × columns; `op` is the ONNX operator ("Add", "Relu", "Softmax", "LayerNormalization" …).
// scalar: a binary operator whose second operand is one number.
model::Kernel ElementwiseKernel(std::string op, int64_t rows, int64_t columns, bool scalar,
                                model::Precision precision);

// The text that fixes a kernel's bucket: op class and geometry without batch, precision, fusion,
// device and source. Two measurements of one layer share it.
std::string BucketText(const model::Kernel& kernel);
// FNV-1a-64 of it, modulo 10: 0 test, 1 calibration, else training.
int GeometryBucket(const model::Kernel& kernel);

}  // namespace hase::latency

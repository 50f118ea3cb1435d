// Net: layers laid one on another into an ONNX graph. Each call adds the ONNX nodes that the
// reference implementation's export has, under names of the same kind ("layer1.0.conv1"), and gives
// the value it makes, with its shape.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/onnx/writer.h"

namespace hase::model::zoo {

// A tensor of the graph, its dimensions without the batch: channels, height, width, or one number
// of features where flat.
struct Value {
  std::string name;
  std::vector<int64_t> dims;
  int64_t channels() const { return dims[0]; }
  int64_t height() const { return dims.size() > 1 ? dims[1] : 1; }
  int64_t width() const { return dims.size() > 2 ? dims[2] : 1; }
};

struct ConvShape {
  int64_t channels;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  bool bias = false;
  // Variance of the weights times the fan-in: 2 keeps the signal's size through a ReLU.
  double gain = 2;
};

enum class Activation { kNone, kRelu, kRelu6, kSilu, kHardSwish, kHardSigmoid, kLeakyRelu };

class Net {
 public:
  Net(const std::string& model, int64_t batch, uint64_t seed);

  Value Input(int64_t channels, int64_t image);
  Value Conv(const Value& x, const ConvShape& shape, const std::string& name);
  // `gain` scales the branch: small at the end of a residual branch, so that depth adds up gently.
  Value BatchNorm(const Value& x, const std::string& name, double gain = 1, float epsilon = 1e-5F);
  Value Activate(const Value& x, Activation activation, const std::string& name);
  Value MaxPool(const Value& x, int64_t kernel, int64_t stride, int64_t padding,
                const std::string& name);
  Value AveragePool(const Value& x, int64_t kernel, int64_t stride, const std::string& name);
  Value GlobalPool(const Value& x, const std::string& name);
  Value Flatten(const Value& x, const std::string& name);
  Value Linear(const Value& x, int64_t features, const std::string& name);
  // Add, Sub, Mul of two values.
  Value Combine(std::string_view op, const Value& a, const Value& b, const std::string& name);
  Value Sigmoid(const Value& x, const std::string& name);
  // Axes count from the batch (0), as in ONNX.
  Value Concat(const std::vector<Value>& values, int64_t axis, const std::string& name);
  Value Softmax(const Value& x, int64_t axis, const std::string& name);
  std::vector<Value> Split(const Value& x, int64_t axis, const std::vector<int64_t>& sizes,
                           const std::string& name);
  Value Upsample(const Value& x, int64_t factor, const std::string& name);
  // One row and column of zeros at the right and bottom.
  Value PadCorner(const Value& x, const std::string& name);
  Value Reshape(const Value& x, const std::vector<int64_t>& dims, const std::string& name);
  Value Transpose(const Value& x, const std::vector<int64_t>& order, const std::string& name);
  // An element-wise operator with a constant on its right, or left. `dims` without batch.
  Value WithConstant(std::string_view op, const Value& x, const std::vector<int64_t>& dims,
                     const std::vector<float>& values, const std::string& name);
  Value ConstantMinus(const std::vector<int64_t>& dims, const std::vector<float>& values,
                      const Value& x, const std::string& name);
  void Output(const Value& x);

  Result<std::string> Serialise() const { return writer_.Serialise(); }

 private:
  Value Emit(std::string_view op, const std::vector<std::string>& inputs, std::vector<int64_t> dims,
             const std::string& name, const onnx_file::Attributes& attributes = {});
  void Random(const std::string& name, const Shape& dims, double deviation, double mean = 0);

  onnx_file::OnnxWriter writer_;
  int64_t batch_;
  uint64_t seed_;
};

}  // namespace hase::model::zoo

#include "apps/calibration_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "model/onnx/writer.h"

namespace hase::apps {
namespace {

using model::Shape;
using model::onnx_file::Attributes;
using model::onnx_file::OnnxWriter;

constexpr std::array<int64_t, 16> kSizes = {7,  10, 13, 14,  20,  26,  28,  40,
                                            52, 56, 80, 104, 112, 160, 224, 320};
constexpr double kMostFlops = 0.6e9, kMostBytes = 12e6;

struct Geometry {
  int64_t size = 7, in = 16, out = 16, groups = 1;
  int64_t window = 1, stride = 1;
  double flops() const {
    return 2.0 * static_cast<double>(size * size * out * (in / groups) * window * window);
  }
  double bytes() const {
    return 4.0 * static_cast<double>(size * size * std::max(in * stride * stride, out));
  }
};

class Sweep {
 public:
  explicit Sweep(uint64_t seed) : rng_(seed), writer_(fmt::format("sweep-{}", seed)) {}

  void AddBranch() {
    const Geometry g = Draw();
    const std::string x = Input({0, g.in, g.size * g.stride, g.size * g.stride});
    const double kind = rng_.Uniform();
    if (kind < 0.70) return Output(Activation(Conv(x, g), rng_.Uniform()));
    if (kind < 0.80) {  // residual sum, fused into the second convolution
      Geometry narrow = g;
      narrow.in = 16;
      narrow.groups = narrow.stride = narrow.window = 1;
      const auto other = Conv(Input({0, 16, g.size, g.size}), narrow);
      return Output(Node("Relu", {Node("Add", {Conv(x, g), other})}));
    }
    if (kind < 0.90) {  // batch norm that no convolution takes in
      const auto pooled = Node("MaxPool", {x},
                               {{"kernel_shape", std::vector<int64_t>{3, 3}},
                                {"strides", std::vector<int64_t>{1, 1}},
                                {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      Geometry after = g;
      after.stride = 1;
      return Output(Conv(Node("Relu", {BatchNorm(pooled, g.in)}), after));
    }
    if (kind < 0.95) {  // concatenation of two, pooled
      Geometry twin = g;
      const auto both = Node("Concat", {Conv(x, g), Conv(x, twin)}, {{"axis", int64_t{1}}});
      return Output(Node("GlobalAveragePool", {both}));
    }
    const auto flat = Node("Flatten", {Node("GlobalAveragePool", {x})}, {{"axis", int64_t{1}}});
    Output(
        Node("Gemm", {flat, Weights({g.out, g.in}), Weights({g.out})}, {{"transB", int64_t{1}}}));
  }

  // One small graph of the basic sweep: a chain, so that a kernel reads what the one before it just
  // wrote, as in a model, and nothing else comes between.
  void AddBasic(int which) {
    std::string x, y;
    switch (which) {
      case 0:
        return Elementwise(128, 40);
      case 1:  // copies whose buffers have left the caches since the last run
        Elementwise(96, 80);
        SplitBlock(52);
        return Output(Node("Relu", {Input({0, 64, 512, 512})}));
      case 2:  // a detector's head
        Output(Head(20));
        return Output(Head(80));
      case 3:
        Output(Upsample(Input({0, 192, 40, 40})));
        return Output(Node("Softmax", {Input({0, 16, 4, 4200})}, {{"axis", int64_t{1}}}));
      case 4:  // the weights of either drive out the other's
        Output(Dense(Input({0, 1280}), 1280, 1000));
        return Output(Dense(Input({0, 4096}), 4096, 4096));
      case 5:
        x = Node("Relu", {Depthwise(Input({0, 128, 56, 56}), 128, 3, 1)});
        x = Node("Relu", {Depthwise(x, 128, 3, 2)});
        x = Normed(Pool("MaxPool", x, 5, 1), 128);
        return Output(Pool("AveragePool", x, 2, 2));
      case 6:
        x = Node("HardSwish", {Depthwise(Input({0, 240, 28, 28}), 240, 5, 1)});
        x = Node("HardSwish", {Depthwise(x, 240, 3, 2)});
        return Output(Node("Clip", {Depthwise(x, 240, 3, 1), Scalar(0), Scalar(6)}));
      case 7:
        x = Pool("MaxPool", Input({0, 64, 224, 224}), 2, 2);
        return Output(Normed(Pool("MaxPool", x, 3, 2), 64));
      case 8:  // residual sums, which the second convolution takes in
        x = Input({0, 64, 56, 56});
        y = Node("Relu", {Dense(x, 64, 64, 1)});
        return Output(Node("Relu", {Node("Add", {Dense(y, 64, 256, 1), Dense(x, 64, 256, 1)})}));
      default:  // squeeze and excite
        x = Node("HardSwish", {Dense(Input({0, 112, 14, 14}), 112, 480, 1)});
        y = Node("Relu", {Dense(Node("GlobalAveragePool", {x}), 480, 120, 1)});
        return Output(Node("Mul", {x, Node("HardSigmoid", {Dense(y, 120, 480, 1)})}));
    }
  }

  Result<std::string> Finish() const { return writer_.Serialise(); }

 private:
  void Elementwise(int64_t channels, int64_t size) {
    const Shape dims = {0, channels, size, size};
    const auto sum = Node("Add", {Input(dims), Input(dims)});
    const auto silu = Node("Mul", {sum, Node("Sigmoid", {sum})});
    const auto [left, right] = Split(silu, channels);
    Output(Node("Concat", {right, silu, left}, {{"axis", int64_t{1}}}));
  }
  // Convolutions about a split and a concatenation: changes of layout in and out of the blocked
  // one.
  void SplitBlock(int64_t size) {
    const auto silu = [&](const std::string& x) { return Node("Mul", {x, Node("Sigmoid", {x})}); };
    const auto wide = silu(Dense(Input({0, 64, size, size}), 64, 128, 1));
    const auto [left, right] = Split(wide, 128);
    const auto narrow = silu(Dense(right, 64, 32, 3));
    Output(Dense(Node("Concat", {left, right, narrow}, {{"axis", int64_t{1}}}), 160, 96, 1));
  }
  std::string Head(int64_t size) {
    return Node("Sigmoid", {Node("Transpose", {Input({0, 3, 85, size, size})},
                                 {{"perm", std::vector<int64_t>{0, 1, 3, 4, 2}}})});
  }
  std::string Dense(const std::string& x, int64_t in, int64_t out) {
    return Node("Gemm", {x, Weights({out, in}), Weights({out})}, {{"transB", int64_t{1}}});
  }
  std::string Dense(const std::string& x, int64_t in, int64_t out, int64_t window) {
    return Conv(x, {.in = in, .out = out, .window = window});
  }
  std::string Depthwise(const std::string& x, int64_t channels, int64_t window, int64_t stride) {
    return Conv(
        x,
        {.in = channels, .out = channels, .groups = channels, .window = window, .stride = stride});
  }
  // After a pool, so that no convolution takes it in.
  std::string Normed(const std::string& x, int64_t channels) {
    return Node("Relu", {BatchNorm(x, channels)});
  }
  std::string Pool(const std::string& op, const std::string& x, int64_t window, int64_t stride) {
    const int64_t pad = (window - 1) / 2;
    return Node(op, {x},
                {{"kernel_shape", std::vector<int64_t>{window, window}},
                 {"strides", std::vector<int64_t>{stride, stride}},
                 {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
  }
  std::pair<std::string, std::string> Split(const std::string& x, int64_t channels) {
    const auto name = Name("Split");
    writer_.AddNode(name, "Split", {x, Integers({channels / 2, channels / 2})},
                    {name + "_a", name + "_b"}, {{"axis", int64_t{1}}});
    return {name + "_a", name + "_b"};
  }
  std::string Upsample(const std::string& x) {
    const auto scales = Name("scales");
    writer_.AddConstant(scales, {4}, std::array<float, 4>{1, 1, 2, 2});
    return Node("Resize", {x, "", scales},
                {{"mode", std::string("nearest")},
                 {"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}});
  }
  std::string Scalar(float value) {
    const auto name = Name("scalar");
    writer_.AddConstant(name, {}, std::array<float, 1>{value});
    return name;
  }
  std::string Integers(const std::vector<int64_t>& values) {
    const auto name = Name("integers");
    writer_.AddInts(name, values);
    return name;
  }

  int64_t Channels(double lo, double hi) {
    const double c = std::exp2(rng_.Uniform(std::log2(lo), std::log2(hi)));
    const int64_t step = rng_.Uniform() < 0.3 ? 8 : 16;
    return std::max<int64_t>(step, std::llround(c / static_cast<double>(step)) * step);
  }

  Geometry Draw() {
    for (;;) {
      Geometry g;
      g.size = kSizes[static_cast<size_t>(rng_.UniformInt(0, kSizes.size() - 1))];
      const double kind = rng_.Uniform();
      g.in = Channels(16, 1024);
      g.out = Channels(16, 1024);
      if (kind < 0.40) {
        g.window = 1;
      } else if (kind < 0.70) {
        g.window = 3;
        g.stride = rng_.Uniform() < 0.2 ? 2 : 1;
      } else if (kind < 0.92) {
        g.window = rng_.Uniform() < 0.7 ? 3 : 5;
        g.stride = rng_.Uniform() < 0.25 ? 2 : 1;
        g.out = g.groups = g.in;
      } else if (kind < 0.97) {
        g.in = 3;
        g.out = Channels(16, 96);
        g.window = rng_.Uniform() < 0.6 ? 3 : 7;
        g.stride = rng_.Uniform() < 0.7 ? 2 : 1;
      } else {
        g.size = 1;
      }
      if (g.flops() <= kMostFlops && g.bytes() <= kMostBytes) return g;
    }
  }

  std::string Name(std::string_view what) { return fmt::format("{}_{}", what, ++names_); }
  std::string Input(const Shape& dims) {
    const auto name = Name("input");
    writer_.AddInput(name, dims, "N");
    return name;
  }
  std::string Weights(const Shape& dims) {
    const auto name = Name("weight");
    writer_.AddFloats(name, dims, [&](std::span<float> values) {
      for (float& v : values) v = static_cast<float>(rng_.Uniform(-0.05, 0.05));
    });
    return name;
  }
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    const auto name = Name(op);
    writer_.AddNode(name, op, inputs, {name + "_out"}, attributes);
    return name + "_out";
  }
  std::string Conv(const std::string& x, const Geometry& g) {
    const int64_t pad = (g.window - 1) / 2;
    return Node("Conv",
                {x, Weights({g.out, g.in / g.groups, g.window, g.window}), Weights({g.out})},
                {{"kernel_shape", std::vector<int64_t>{g.window, g.window}},
                 {"strides", std::vector<int64_t>{g.stride, g.stride}},
                 {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                 {"group", g.groups}});
  }
  std::string BatchNorm(const std::string& x, int64_t channels) {
    const auto ones = Name("ones");
    writer_.AddFloats(ones, {channels}, [](std::span<float> v) { std::ranges::fill(v, 1.0f); });
    return Node("BatchNormalization", {x, ones, Weights({channels}), Weights({channels}), ones});
  }
  std::string Activation(const std::string& x, double draw) {
    if (draw < 0.40) return Node("Relu", {x});
    if (draw < 0.60) return x;
    if (draw < 0.75) return Node("Mul", {x, Node("Sigmoid", {x})});
    if (draw < 0.85) return Node("LeakyRelu", {x});
    if (draw < 0.93) return Node("HardSwish", {x});
    return Node("HardSigmoid", {x});
  }
  void Output(const std::string& name) { writer_.AddOutput(name, {}, "N"); }

  Rng rng_;
  OnnxWriter writer_;
  int names_ = 0;
};

}  // namespace

Result<std::string> CalibrationGraph(uint64_t seed, int branches) {
  Sweep sweep(seed);
  for (int i = 0; i < branches; ++i) sweep.AddBranch();
  return sweep.Finish();
}

Result<std::string> BasicCalibrationGraph(int which) {
  Sweep sweep(0);
  sweep.AddBasic(which);
  return sweep.Finish();
}

}  // namespace hase::apps

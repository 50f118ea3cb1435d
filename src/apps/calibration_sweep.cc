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

  Result<std::string> Finish() const { return writer_.Serialise(); }

 private:
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

}  // namespace hase::apps

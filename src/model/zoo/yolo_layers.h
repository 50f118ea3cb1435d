// Layers that the YOLO generations share.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "model/zoo/net.h"

namespace hase::model::zoo {

constexpr float kYoloEpsilon = 1e-3F;
constexpr int64_t kYoloClasses = 80;
// SiLU keeps 0.355 of a unit normal's second moment.
constexpr double kSiluGain = 2.8;

// Convolution, normalisation, activation.
inline Value YoloConv(Net& net, const Value& x, ConvShape shape, const std::string& name,
                      Activation activation = Activation::kSilu) {
  if (activation == Activation::kSilu) shape.gain = kSiluGain;
  const Value y = net.BatchNorm(net.Conv(x, shape, name + ".conv"), name + ".bn", 1, kYoloEpsilon);
  return net.Activate(y, activation, name + ".act");
}

inline Value YoloBottleneck(Net& net, const Value& x, int64_t first_kernel, bool shortcut,
                            const std::string& name) {
  const int64_t channels = x.channels();
  Value y = YoloConv(net, x, {.channels = channels, .kernel = first_kernel}, name + ".cv1");
  y = YoloConv(net, y, {.channels = channels, .kernel = 3}, name + ".cv2");
  return shortcut ? net.Combine("Add", x, y, name + ".add") : y;
}

// Spatial pyramid pooling, fast form: three chained 5×5 max pools beside their input.
inline Value Sppf(Net& net, const Value& x, int64_t channels, const std::string& name) {
  std::vector<Value> levels = {YoloConv(net, x, {.channels = x.channels() / 2}, name + ".cv1")};
  for (int i = 1; i <= 3; ++i) {
    levels.push_back(net.MaxPool(levels.back(), 5, 1, 2, name + ".m" + std::to_string(i)));
  }
  return YoloConv(net, net.Concat(levels, 1, name + ".concat"), {.channels = channels},
                  name + ".cv2");
}

// A size letter's multiples of the largest network's depth and width.
struct YoloScale {
  double depth, width;
  int64_t widest = 1024;
  int64_t Channels(int64_t channels) const {
    const double scaled = static_cast<double>(std::min(channels, widest)) * width;
    return static_cast<int64_t>(std::ceil(scaled / 8)) * 8;
  }
  int Repeats(int repeats) const {
    return std::max(1, static_cast<int>(std::lround(repeats * depth)));
  }
};

// One output level of an anchor-based head (v3, v5): per anchor and cell the box, its score and the
// classes, decoded into pixels. Gives [anchors · cells, 5 + classes].
Value AnchorHead(Net& net, const Value& x, const std::vector<float>& anchors, int64_t stride,
                 const std::string& name);

}  // namespace hase::model::zoo

// MobileNets. v1: A. Howard et al. (2017), table 1. v2: M. Sandler et al., "MobileNetV2: Inverted
// Residuals and Linear Bottlenecks" (2018), table 2. v3: A. Howard et al., "Searching for
// MobileNetV3" (2019), tables 1 and 2. v2 and v3 match torchvision's counts.
#include <algorithm>
#include <string>

#include "model/zoo/families.h"

namespace hase::model::zoo {
namespace {

constexpr double kBranchGain = 0.2;

// The nearest multiple of eight that loses no more than a tenth (torchvision: _make_divisible).
int64_t RoundToEight(int64_t channels) {
  const int64_t rounded = std::max<int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * rounded < 9 * channels ? rounded + 8 : rounded;
}

// The tail of a convolution: normalisation, with its epsilon and branch gain, and activation.
struct Tail {
  Activation activation = Activation::kNone;
  float epsilon = 1e-5F;
  double gain = 1;
};

Value ConvNorm(Net& net, const Value& x, const ConvShape& shape, const Tail& tail,
               const std::string& name) {
  const Value y = net.Conv(x, shape, name + ".0");
  return net.Activate(net.BatchNorm(y, name + ".1", tail.gain, tail.epsilon), tail.activation,
                      name + ".2");
}

struct Inverted {
  int64_t expanded;
  int64_t channels;
  int64_t kernel = 3;
  int64_t stride = 1;
  bool squeeze = false;
  Tail tail;
};

// Squeeze-and-excitation: a global pool decides how much each channel counts.
Value Squeeze(Net& net, const Value& x, const std::string& name) {
  Value s = net.GlobalPool(x, name + ".avgpool");
  s = net.Conv(s, {.channels = RoundToEight(x.channels() / 4), .bias = true}, name + ".fc1");
  s = net.Activate(s, Activation::kRelu, name + ".relu");
  s = net.Conv(s, {.channels = x.channels(), .bias = true}, name + ".fc2");
  s = net.Activate(s, Activation::kHardSigmoid, name + ".scale");
  return net.Combine("Mul", x, s, name + ".mul");
}

Value InvertedResidual(Net& net, const Value& x, const Inverted& block, const std::string& name) {
  Value y = x;
  if (block.expanded != x.channels()) {
    y = ConvNorm(net, y, {.channels = block.expanded}, block.tail, name + ".expand");
  }
  const ConvShape depthwise = {.channels = block.expanded,
                               .kernel = block.kernel,
                               .stride = block.stride,
                               .groups = block.expanded};
  y = ConvNorm(net, y, depthwise, block.tail, name + ".depthwise");
  if (block.squeeze) y = Squeeze(net, y, name + ".squeeze");
  const bool residual = block.stride == 1 && x.channels() == block.channels;
  const Tail linear = {.epsilon = block.tail.epsilon, .gain = residual ? kBranchGain : 1};
  y = ConvNorm(net, y, {.channels = block.channels, .gain = 1}, linear, name + ".project");
  return residual ? net.Combine("Add", x, y, name + ".add") : y;
}

struct V3Row {
  int64_t kernel, expanded, channels;
  bool squeeze, hard_swish;
  int64_t stride;
};
constexpr V3Row kLarge[] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr V3Row kSmall[] = {
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};

}  // namespace

void BuildMobileNetV1(Net& net) {
  constexpr Tail kTail = {.activation = Activation::kRelu};
  struct Row {
    int64_t channels, stride;
  };
  constexpr Row kRows[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                           {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  Value x = net.Input(3, 224);
  x = ConvNorm(net, x, {.channels = 32, .kernel = 3, .stride = 2}, kTail, "conv0");
  int index = 1;
  for (const auto& row : kRows) {
    const std::string name = "conv" + std::to_string(index++);
    const ConvShape depthwise = {
        .channels = x.channels(), .kernel = 3, .stride = row.stride, .groups = x.channels()};
    x = ConvNorm(net, x, depthwise, kTail, name + ".depthwise");
    x = ConvNorm(net, x, {.channels = row.channels}, kTail, name + ".pointwise");
  }
  x = net.Flatten(net.GlobalPool(x, "avgpool"), "flatten");
  net.Output(net.Linear(x, 1000, "fc"));
}

void BuildMobileNetV2(Net& net) {
  constexpr Tail kTail = {.activation = Activation::kRelu6};
  struct Row {
    int64_t expansion, channels, repeat, stride;
  };
  constexpr Row kRows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                           {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Value x = net.Input(3, 224);
  x = ConvNorm(net, x, {.channels = 32, .kernel = 3, .stride = 2}, kTail, "features.0");
  int index = 1;
  for (const auto& row : kRows) {
    for (int64_t i = 0; i < row.repeat; ++i) {
      const Inverted block{.expanded = x.channels() * row.expansion,
                           .channels = row.channels,
                           .stride = i == 0 ? row.stride : 1,
                           .tail = kTail};
      x = InvertedResidual(net, x, block, "features." + std::to_string(index++));
    }
  }
  x = ConvNorm(net, x, {.channels = 1280}, kTail, "features.18");
  x = net.Flatten(net.GlobalPool(x, "avgpool"), "flatten");
  net.Output(net.Linear(x, 1000, "classifier.1"));
}

void BuildMobileNetV3(Net& net, bool large) {
  constexpr Tail kSwish = {.activation = Activation::kHardSwish, .epsilon = 1e-3F};
  Value x = net.Input(3, 224);
  x = ConvNorm(net, x, {.channels = 16, .kernel = 3, .stride = 2}, kSwish, "features.0");
  int index = 1;
  for (const V3Row& row : large ? std::span<const V3Row>(kLarge) : std::span<const V3Row>(kSmall)) {
    Tail tail = kSwish;
    if (!row.hard_swish) tail.activation = Activation::kRelu;
    const Inverted block{.expanded = row.expanded,
                         .channels = row.channels,
                         .kernel = row.kernel,
                         .stride = row.stride,
                         .squeeze = row.squeeze,
                         .tail = tail};
    x = InvertedResidual(net, x, block, "features." + std::to_string(index++));
  }
  x = ConvNorm(net, x, {.channels = x.channels() * 6}, kSwish, "features." + std::to_string(index));
  x = net.Flatten(net.GlobalPool(x, "avgpool"), "flatten");
  x = net.Linear(x, large ? 1280 : 1024, "classifier.0");
  x = net.Activate(x, Activation::kHardSwish, "classifier.1");
  net.Output(net.Linear(x, 1000, "classifier.3"));
}

}  // namespace hase::model::zoo

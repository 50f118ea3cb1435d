// YOLOv8 n/s/m, Ultralytics' yolov8.yaml: "C2f" blocks, an anchor-free head that predicts each box
// edge as a distribution over sixteen distances (X. Li et al., "Generalized Focal Loss", 2020).
#include <algorithm>

#include "model/zoo/families.h"
#include "model/zoo/yolo_layers.h"

namespace hase::model::zoo {
namespace {

constexpr int64_t kBins = 16;

// Every bottleneck's output is kept and concatenated.
Value C2f(Net& net, const Value& x, int64_t channels, int repeats, bool shortcut,
          const std::string& name) {
  const int64_t half = channels / 2;
  const Value y = YoloConv(net, x, {.channels = 2 * half}, name + ".cv1");
  std::vector<Value> parts = net.Split(y, 1, {half, half}, name + ".split");
  for (int i = 0; i < repeats; ++i) {
    parts.push_back(
        YoloBottleneck(net, parts.back(), 3, shortcut, name + ".m." + std::to_string(i)));
  }
  return YoloConv(net, net.Concat(parts, 1, name + ".concat"), {.channels = channels},
                  name + ".cv2");
}

// Two 3×3 convolutions and a 1×1: one of the head's two branches at one level.
Value HeadBranch(Net& net, const Value& x, int64_t inner, int64_t outputs,
                 const std::string& name) {
  Value y = YoloConv(net, x, {.channels = inner, .kernel = 3}, name + ".0");
  y = YoloConv(net, y, {.channels = inner, .kernel = 3}, name + ".1");
  return net.Conv(y, {.channels = outputs, .bias = true, .gain = 1}, name + ".2");
}

// From edge distances around each cell's centre to boxes in pixels.
Value DecodeBoxes(Net& net, const Value& distances, const std::vector<float>& centres,
                  const std::vector<float>& strides, const std::string& name) {
  const auto cells = static_cast<int64_t>(strides.size());
  const auto edges = net.Split(distances, 1, {2, 2}, name + ".edges");
  const Value low = net.ConstantMinus({2, cells}, centres, edges[0], name + ".low");
  const Value high = net.WithConstant("Add", edges[1], {2, cells}, centres, name + ".high");
  Value centre = net.Combine("Add", low, high, name + ".sum");
  centre = net.WithConstant("Div", centre, {}, {2}, name + ".centre");
  const Value size = net.Combine("Sub", high, low, name + ".size");
  const Value boxes = net.Concat({centre, size}, 1, name + ".boxes");
  return net.WithConstant("Mul", boxes, {1, cells}, strides, name + ".pixels");
}

Value Detect(Net& net, const std::vector<Value>& levels, const std::string& name) {
  const int64_t box_inner = std::max<int64_t>({16, levels[0].channels() / 4, 4 * kBins});
  const int64_t class_inner = std::max<int64_t>(levels[0].channels(), kYoloClasses);
  std::vector<Value> flat;
  std::vector<float> xs, ys, strides;
  int64_t stride = 8;
  for (size_t i = 0; i < levels.size(); ++i, stride *= 2) {
    const Value& x = levels[i];
    const std::string at = "." + std::to_string(i);
    const Value box = HeadBranch(net, x, box_inner, 4 * kBins, name + ".cv2" + at);
    const Value classes = HeadBranch(net, x, class_inner, kYoloClasses, name + ".cv3" + at);
    const Value both = net.Concat({box, classes}, 1, name + ".concat" + at);
    const int64_t cells = x.height() * x.width();
    flat.push_back(net.Reshape(both, {both.channels(), cells}, name + ".reshape" + at));
    for (int64_t cell = 0; cell < cells; ++cell) {
      xs.push_back(static_cast<float>(cell % x.width()) + 0.5F);
      ys.push_back(static_cast<float>(cell / x.width()) + 0.5F);
      strides.push_back(static_cast<float>(stride));
    }
  }
  std::vector<float> centres = xs;
  centres.insert(centres.end(), ys.begin(), ys.end());
  const auto cells = static_cast<int64_t>(strides.size());
  const auto parts = net.Split(net.Concat(flat, 2, name + ".levels"), 1, {4 * kBins, kYoloClasses},
                               name + ".split");
  Value y = net.Reshape(parts[0], {4, kBins, cells}, name + ".dfl.reshape");
  y = net.Softmax(net.Transpose(y, {2, 1, 3}, name + ".dfl.transpose"), 1, name + ".dfl.softmax");
  y = net.Conv(y, {.channels = 1}, name + ".dfl.conv");
  y = net.Reshape(y, {4, cells}, name + ".dfl.flat");
  const Value boxes = DecodeBoxes(net, y, centres, strides, name);
  return net.Concat({boxes, net.Sigmoid(parts[1], name + ".scores")}, 1, "output");
}

}  // namespace

void BuildYoloV8(Net& net, double depth, double width, int64_t widest) {
  const YoloScale scale{.depth = depth, .width = width, .widest = widest};
  const auto name = [](int index) { return "model." + std::to_string(index); };
  const auto conv = [&](const Value& x, int64_t channels, int index) {
    return YoloConv(net, x, {.channels = scale.Channels(channels), .kernel = 3, .stride = 2},
                    name(index));
  };
  const auto c2f = [&](const Value& x, int64_t channels, int repeats, bool shortcut, int index) {
    return C2f(net, x, scale.Channels(channels), scale.Repeats(repeats), shortcut, name(index));
  };
  Value x = conv(net.Input(3, 640), 64, 0);
  x = c2f(conv(x, 128, 1), 128, 3, true, 2);
  const Value p3 = c2f(conv(x, 256, 3), 256, 6, true, 4);
  const Value p4 = c2f(conv(p3, 512, 5), 512, 6, true, 6);
  x = c2f(conv(p4, 1024, 7), 1024, 3, true, 8);
  const Value top = Sppf(net, x, scale.Channels(1024), name(9));

  x = net.Concat({net.Upsample(top, 2, name(10)), p4}, 1, name(11));
  const Value middle = c2f(x, 512, 3, false, 12);
  x = net.Concat({net.Upsample(middle, 2, name(13)), p3}, 1, name(14));
  const Value out3 = c2f(x, 256, 3, false, 15);
  x = net.Concat({conv(out3, 256, 16), middle}, 1, name(17));
  const Value out4 = c2f(x, 512, 3, false, 18);
  x = net.Concat({conv(out4, 512, 19), top}, 1, name(20));
  const Value out5 = c2f(x, 1024, 3, false, 21);
  net.Output(Detect(net, {out3, out4, out5}, name(22)));
}

}  // namespace hase::model::zoo

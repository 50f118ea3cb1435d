// YOLOv5 n/s/m, Ultralytics' release 6 and later (yolov5n.yaml …): a CSP backbone ("C3" blocks), a
// path-aggregation neck, three anchor-based heads.
#include "model/zoo/families.h"
#include "model/zoo/yolo_layers.h"

namespace hase::model::zoo {
namespace {

// Half of the channels pass through bottlenecks, half pass by (C.-Y. Wang et al., "CSPNet", 2019).
Value C3(Net& net, const Value& x, int64_t channels, int repeats, bool shortcut,
         const std::string& name) {
  const int64_t half = channels / 2;
  Value y = YoloConv(net, x, {.channels = half}, name + ".cv1");
  for (int i = 0; i < repeats; ++i) {
    y = YoloBottleneck(net, y, 1, shortcut, name + ".m." + std::to_string(i));
  }
  const Value by = YoloConv(net, x, {.channels = half}, name + ".cv2");
  return YoloConv(net, net.Concat({y, by}, 1, name + ".concat"), {.channels = channels},
                  name + ".cv3");
}

}  // namespace

void BuildYoloV5(Net& net, double depth, double width) {
  const YoloScale scale{.depth = depth, .width = width};
  const auto name = [](int index) { return "model." + std::to_string(index); };
  const auto conv = [&](const Value& x, int64_t channels, int64_t kernel, int64_t stride,
                        int index) {
    return YoloConv(net, x,
                    {.channels = scale.Channels(channels), .kernel = kernel, .stride = stride},
                    name(index));
  };
  const auto c3 = [&](const Value& x, int64_t channels, int repeats, bool shortcut, int index) {
    return C3(net, x, scale.Channels(channels), scale.Repeats(repeats), shortcut, name(index));
  };
  Value x = net.Input(3, 640);
  x = conv(x, 64, 6, 2, 0);
  x = c3(conv(x, 128, 3, 2, 1), 128, 3, true, 2);
  const Value p3 = c3(conv(x, 256, 3, 2, 3), 256, 6, true, 4);
  const Value p4 = c3(conv(p3, 512, 3, 2, 5), 512, 9, true, 6);
  x = c3(conv(p4, 1024, 3, 2, 7), 1024, 3, true, 8);
  x = Sppf(net, x, scale.Channels(1024), name(9));

  const Value top = conv(x, 512, 1, 1, 10);
  x = net.Concat({net.Upsample(top, 2, name(11)), p4}, 1, name(12));
  const Value middle = conv(c3(x, 512, 3, false, 13), 256, 1, 1, 14);
  x = net.Concat({net.Upsample(middle, 2, name(15)), p3}, 1, name(16));
  const Value out3 = c3(x, 256, 3, false, 17);
  x = net.Concat({conv(out3, 256, 3, 2, 18), middle}, 1, name(19));
  const Value out4 = c3(x, 512, 3, false, 20);
  x = net.Concat({conv(out4, 512, 3, 2, 21), top}, 1, name(22));
  const Value out5 = c3(x, 1024, 3, false, 23);

  net.Output(net.Concat({AnchorHead(net, out3, {10, 13, 16, 30, 33, 23}, 8, "model.24.m.0"),
                         AnchorHead(net, out4, {30, 61, 62, 45, 59, 119}, 16, "model.24.m.1"),
                         AnchorHead(net, out5, {116, 90, 156, 198, 373, 326}, 32, "model.24.m.2")},
                        1, "output"));
}

}  // namespace hase::model::zoo

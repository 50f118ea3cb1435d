// YOLOv3-tiny: J. Redmon and A. Farhadi, "YOLOv3: An Incremental Improvement" (2018), as in
// Ultralytics' yolov3-tiny.yaml, with the paper's leaky ReLU. The decoding of boxes is that of
// Ultralytics' export; suppression of overlapping boxes is left to the caller, as there.
#include "model/zoo/families.h"
#include "model/zoo/yolo_layers.h"

namespace hase::model::zoo {

Value AnchorHead(Net& net, const Value& x, const std::vector<float>& anchors, int64_t stride,
                 const std::string& name) {
  const auto count = static_cast<int64_t>(anchors.size() / 2);
  const int64_t fields = 5 + kYoloClasses, height = x.height(), width = x.width();
  Value y = net.Conv(x, {.channels = count * fields, .bias = true, .gain = 1}, name + ".conv");
  y = net.Reshape(y, {count, fields, height, width}, name + ".reshape");
  y = net.Sigmoid(net.Transpose(y, {1, 3, 4, 2}, name + ".transpose"), name + ".sigmoid");
  const auto parts = net.Split(y, 4, {2, 2, fields - 4}, name + ".split");
  std::vector<float> grid, sizes;
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t cell = 0; cell < height * width; ++cell) {
      grid.push_back(static_cast<float>(cell % width) - 0.5F);
      grid.push_back(static_cast<float>(cell / width) - 0.5F);
      sizes.push_back(anchors[static_cast<size_t>(2 * a)]);
      sizes.push_back(anchors[static_cast<size_t>(2 * a + 1)]);
    }
  }
  const std::vector<int64_t> dims = {count, height, width, 2};
  Value xy = net.WithConstant("Mul", parts[0], {}, {2}, name + ".xy.double");
  xy = net.WithConstant("Add", xy, dims, grid, name + ".xy.grid");
  xy = net.WithConstant("Mul", xy, {}, {static_cast<float>(stride)}, name + ".xy");
  Value wh = net.WithConstant("Mul", parts[1], {}, {2}, name + ".wh.double");
  wh = net.WithConstant("Pow", wh, {}, {2}, name + ".wh.square");
  wh = net.WithConstant("Mul", wh, dims, sizes, name + ".wh");
  y = net.Concat({xy, wh, parts[2]}, 4, name + ".concat");
  return net.Reshape(y, {count * height * width, fields}, name + ".flat");
}

void BuildYoloV3Tiny(Net& net) {
  const auto conv = [&](const Value& x, int64_t channels, int64_t kernel, int index) {
    return YoloConv(net, x, {.channels = channels, .kernel = kernel},
                    "model." + std::to_string(index), Activation::kLeakyRelu);
  };
  Value x = net.Input(3, 640);
  Value skip = x;
  int index = 0;
  for (const int64_t channels : {16, 32, 64, 128, 256, 512}) {
    x = conv(x, channels, 3, index++);
    if (channels == 256) skip = x;
    if (channels == 512) break;
    x = net.MaxPool(x, 2, 2, 0, "model." + std::to_string(index++));
  }
  x = net.MaxPool(net.PadCorner(x, "model.11"), 2, 1, 0, "model.12");
  x = conv(x, 1024, 3, 13);
  const Value neck = conv(x, 256, 1, 14);
  const Value large = conv(neck, 512, 3, 15);
  Value up = net.Upsample(conv(neck, 128, 1, 16), 2, "model.17");
  const Value medium = conv(net.Concat({up, skip}, 1, "model.18"), 256, 3, 19);
  const Value boxes16 = AnchorHead(net, medium, {10, 14, 23, 27, 37, 58}, 16, "model.20.m0");
  const Value boxes32 = AnchorHead(net, large, {81, 82, 135, 169, 344, 319}, 32, "model.20.m1");
  net.Output(net.Concat({boxes16, boxes32}, 1, "output"));
}

}  // namespace hase::model::zoo

#include "model/zoo/zoo.h"

#include <algorithm>

#include "base/hash.h"
#include "model/zoo/families.h"

namespace hase::model::zoo {
namespace {

constexpr ZooModel kModels[] = {
    {"resnet18", "resnet", [](Net& n) { BuildResNet(n, {{2, 2, 2, 2}, false}); }},
    {"resnet34", "resnet", [](Net& n) { BuildResNet(n, {{3, 4, 6, 3}, false}); }},
    {"resnet50", "resnet", [](Net& n) { BuildResNet(n, {{3, 4, 6, 3}, true}); }},
    {"resnet101", "resnet", [](Net& n) { BuildResNet(n, {{3, 4, 23, 3}, true}); }},
    {"resnet152", "resnet", [](Net& n) { BuildResNet(n, {{3, 8, 36, 3}, true}); }},
    {"vgg11", "vgg",
     [](Net& n) { BuildVgg(n, {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}); }},
    {"vgg13", "vgg",
     [](Net& n) { BuildVgg(n, {64, 64, 0, 128, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}); }},
    {"vgg16", "vgg",
     [](Net& n) {
       BuildVgg(n, {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0});
     }},
    {"vgg19", "vgg",
     [](Net& n) {
       BuildVgg(n, {64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                    512, 512, 512, 512, 0,   512, 512, 512, 512, 0});
     }},
    {"densenet121", "densenet", [](Net& n) { BuildDenseNet(n, {32, 64, {6, 12, 24, 16}}); }},
    {"densenet161", "densenet", [](Net& n) { BuildDenseNet(n, {48, 96, {6, 12, 36, 24}}); }},
    {"densenet169", "densenet", [](Net& n) { BuildDenseNet(n, {32, 64, {6, 12, 32, 32}}); }},
    {"densenet201", "densenet", [](Net& n) { BuildDenseNet(n, {32, 64, {6, 12, 48, 32}}); }},
    {"mobilenet_v1", "mobilenet", [](Net& n) { BuildMobileNetV1(n); }},
    {"mobilenet_v2", "mobilenet", [](Net& n) { BuildMobileNetV2(n); }},
    {"mobilenet_v3_small", "mobilenet", [](Net& n) { BuildMobileNetV3(n, false); }},
    {"mobilenet_v3_large", "mobilenet", [](Net& n) { BuildMobileNetV3(n, true); }},
    {"yolov3_tiny", "yolo", [](Net& n) { BuildYoloV3Tiny(n); }},
    {"yolov5n", "yolo", [](Net& n) { BuildYoloV5(n, 0.33, 0.25); }},
    {"yolov5s", "yolo", [](Net& n) { BuildYoloV5(n, 0.33, 0.50); }},
    {"yolov5m", "yolo", [](Net& n) { BuildYoloV5(n, 0.67, 0.75); }},
    {"yolov8n", "yolo", [](Net& n) { BuildYoloV8(n, 0.33, 0.25, 1024); }},
    {"yolov8s", "yolo", [](Net& n) { BuildYoloV8(n, 0.33, 0.50, 1024); }},
    {"yolov8m", "yolo", [](Net& n) { BuildYoloV8(n, 0.67, 0.75, 768); }},
};

}  // namespace

std::span<const ZooModel> ZooModels() { return kModels; }

const ZooModel* FindZooModel(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &ZooModel::name);
  return found == std::end(kModels) ? nullptr : found;
}

Result<std::string> BuildOnnx(const ZooModel& model, int64_t batch) {
  Net net(std::string(model.name), batch, Fnv1a64(model.name));
  model.build(net);
  return net.Serialise();
}

}  // namespace hase::model::zoo

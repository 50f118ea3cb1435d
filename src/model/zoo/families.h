// The network families; each file cites its paper and the implementation whose counts it matches.
#pragma once

#include <cstdint>
#include <vector>

#include "model/zoo/net.h"

namespace hase::model::zoo {

// resnet.cc
struct ResNetSize {
  std::vector<int> blocks;  // per stage
  bool bottleneck;
};
void BuildResNet(Net& net, const ResNetSize& size);

// vgg.cc: channels per convolution; 0 is a max pool.
void BuildVgg(Net& net, const std::vector<int>& layers);

// densenet.cc
struct DenseNetSize {
  int64_t growth;
  int64_t first;
  std::vector<int> layers;  // per block
};
void BuildDenseNet(Net& net, const DenseNetSize& size);

// mobilenet.cc
void BuildMobileNetV1(Net& net);
void BuildMobileNetV2(Net& net);
void BuildMobileNetV3(Net& net, bool large);

// yolo_v3.cc, yolo_v5.cc, yolo_v8.cc; depth and width are the multiples of the size letter.
void BuildYoloV3Tiny(Net& net);
void BuildYoloV5(Net& net, double depth, double width);
void BuildYoloV8(Net& net, double depth, double width, int64_t widest);

}  // namespace hase::model::zoo

// ResNet: K. He et al., "Deep Residual Learning for Image Recognition" (2015), table 1. The stride
// of a bottleneck sits in its 3×3 convolution, as in torchvision ("v1.5"), whose parameter counts
// these match.
#include <string>

#include "model/zoo/families.h"

namespace hase::model::zoo {
namespace {

struct Block {
  int64_t planes;
  int64_t stride;
  bool bottleneck;
  int64_t channels() const { return planes * (bottleneck ? 4 : 1); }
};

// Weight of a branch beside its shortcut, so that fifty blocks do not blow the signal up.
constexpr double kBranchGain = 0.2;

Value Branch(Net& net, const Value& x, const Block& block, const std::string& name) {
  const ConvShape first = {.channels = block.planes,
                           .kernel = block.bottleneck ? 1 : 3,
                           .stride = block.bottleneck ? 1 : block.stride};
  Value y = net.BatchNorm(net.Conv(x, first, name + ".conv1"), name + ".bn1");
  y = net.Activate(y, Activation::kRelu, name + ".relu1");
  const ConvShape second = {
      .channels = block.planes, .kernel = 3, .stride = block.bottleneck ? block.stride : 1};
  y = net.BatchNorm(net.Conv(y, second, name + ".conv2"), name + ".bn2",
                    block.bottleneck ? 1 : kBranchGain);
  if (!block.bottleneck) return y;
  y = net.Activate(y, Activation::kRelu, name + ".relu2");
  y = net.Conv(y, {.channels = block.channels()}, name + ".conv3");
  return net.BatchNorm(y, name + ".bn3", kBranchGain);
}

Value Residual(Net& net, const Value& x, const Block& block, const std::string& name) {
  const Value y = Branch(net, x, block, name);
  Value shortcut = x;
  if (block.stride != 1 || x.channels() != block.channels()) {
    shortcut = net.Conv(x, {.channels = block.channels(), .stride = block.stride, .gain = 1},
                        name + ".downsample.0");
    shortcut = net.BatchNorm(shortcut, name + ".downsample.1");
  }
  return net.Activate(net.Combine("Add", y, shortcut, name + ".add"), Activation::kRelu,
                      name + ".relu");
}

}  // namespace

void BuildResNet(Net& net, const ResNetSize& size) {
  Value x = net.Input(3, 224);
  x = net.Conv(x, {.channels = 64, .kernel = 7, .stride = 2}, "conv1");
  x = net.Activate(net.BatchNorm(x, "bn1"), Activation::kRelu, "relu");
  x = net.MaxPool(x, 3, 2, 1, "maxpool");
  for (size_t stage = 0; stage < size.blocks.size(); ++stage) {
    for (int i = 0; i < size.blocks[stage]; ++i) {
      const Block block{.planes = int64_t{64} << stage,
                        .stride = stage > 0 && i == 0 ? 2 : 1,
                        .bottleneck = size.bottleneck};
      x = Residual(net, x, block, "layer" + std::to_string(stage + 1) + "." + std::to_string(i));
    }
  }
  x = net.Flatten(net.GlobalPool(x, "avgpool"), "flatten");
  net.Output(net.Linear(x, 1000, "fc"));
}

}  // namespace hase::model::zoo

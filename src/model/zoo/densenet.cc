// DenseNet-BC: G. Huang et al., "Densely Connected Convolutional Networks" (2016), table 1;
// torchvision's counts. Every layer reads the concatenation of all before it, so batch
// normalisation comes first and cannot fold into a convolution before it.
#include <string>

#include "model/zoo/families.h"

namespace hase::model::zoo {
namespace {

constexpr int64_t kBottleneck = 4;

Value Layer(Net& net, const std::vector<Value>& before, int64_t growth, const std::string& name) {
  Value x = before.size() == 1 ? before[0] : net.Concat(before, 1, name + ".concat");
  x = net.Activate(net.BatchNorm(x, name + ".norm1"), Activation::kRelu, name + ".relu1");
  x = net.Conv(x, {.channels = kBottleneck * growth}, name + ".conv1");
  x = net.Activate(net.BatchNorm(x, name + ".norm2"), Activation::kRelu, name + ".relu2");
  return net.Conv(x, {.channels = growth, .kernel = 3}, name + ".conv2");
}

}  // namespace

void BuildDenseNet(Net& net, const DenseNetSize& size) {
  Value x = net.Input(3, 224);
  x = net.Conv(x, {.channels = size.first, .kernel = 7, .stride = 2}, "conv0");
  x = net.Activate(net.BatchNorm(x, "norm0"), Activation::kRelu, "relu0");
  x = net.MaxPool(x, 3, 2, 1, "pool0");
  for (size_t b = 0; b < size.layers.size(); ++b) {
    std::vector<Value> values = {x};
    const std::string block = "denseblock" + std::to_string(b + 1);
    for (int i = 0; i < size.layers[b]; ++i) {
      values.push_back(
          Layer(net, values, size.growth, block + ".denselayer" + std::to_string(i + 1)));
    }
    x = net.Concat(values, 1, block + ".concat");
    if (b + 1 == size.layers.size()) break;
    const std::string transition = "transition" + std::to_string(b + 1);
    x = net.Activate(net.BatchNorm(x, transition + ".norm"), Activation::kRelu,
                     transition + ".relu");
    x = net.Conv(x, {.channels = x.channels() / 2}, transition + ".conv");
    x = net.AveragePool(x, 2, 2, transition + ".pool");
  }
  x = net.Activate(net.BatchNorm(x, "norm5"), Activation::kRelu, "relu5");
  x = net.Flatten(net.GlobalPool(x, "avgpool"), "flatten");
  net.Output(net.Linear(x, 1000, "classifier"));
}

}  // namespace hase::model::zoo

// VGG: K. Simonyan and A. Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition" (2014), table 1 (A, B, D, E), without batch normalisation; torchvision's counts.
// Dropout does nothing in inference and is left out.
#include <string>

#include "model/zoo/families.h"

namespace hase::model::zoo {

void BuildVgg(Net& net, const std::vector<int>& layers) {
  Value x = net.Input(3, 224);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "features." + std::to_string(i);
    if (layers[i] == 0) {
      x = net.MaxPool(x, 2, 2, 0, name);
      continue;
    }
    x = net.Conv(x, {.channels = layers[i], .kernel = 3, .bias = true}, name);
    x = net.Activate(x, Activation::kRelu, name + ".relu");
  }
  x = net.Flatten(x, "flatten");
  x = net.Activate(net.Linear(x, 4096, "classifier.0"), Activation::kRelu, "classifier.1");
  x = net.Activate(net.Linear(x, 4096, "classifier.3"), Activation::kRelu, "classifier.4");
  net.Output(net.Linear(x, 1000, "classifier.6"));
}

}  // namespace hase::model::zoo

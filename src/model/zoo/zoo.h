// The model zoo: networks of five families built from their papers' tables, with parameter counts
// and multiply-adds equal to the published ones (tests/data/cnn_reference.csv). Weights are a
// seeded hash: latency does not depend on their values, only on their being ordinary numbers.
//
// Each network is a function that lays layers on a Net (net.h); zoo.cc holds the table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hase::model::zoo {

class Net;

struct ZooModel {
  std::string_view name;
  std::string_view family;  // "resnet", "vgg", "densenet", "mobilenet", "yolo"
  void (*build)(Net& net);
};

std::span<const ZooModel> ZooModels();
// nullptr if there is none of this name.
const ZooModel* FindZooModel(std::string_view name);

// The model as ONNX bytes. Batch 0: symbolic, named "N".
Result<std::string> BuildOnnx(const ZooModel& model, int64_t batch = 0);

}  // namespace hase::model::zoo

// --load sm=0.4,dram=0.2,pcie=0,residents=resnet50:8:0.5+vgg16:1:1 as `hase predict` takes it;
// `live` among the parts: what this machine's counters say now.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "latency/estimator.h"

namespace hase::cli {

struct ResidentWish {
  std::string model;
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
};
struct LoadWish {
  latency::ForeignLoad foreign;
  std::vector<ResidentWish> residents;
  bool live = false;
};

// Usage errors name the part that is wrong. Empty text is no load.
Result<LoadWish> ParseLoad(std::string_view text);

}  // namespace hase::cli

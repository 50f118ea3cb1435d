// hase evaluate --load: models beside strangers on this machine's CPU, predicted from live
// counters.
#pragma once

#include <string>

#include "base/result.h"

namespace hase::cli {

struct EvaluateLoadFlags {
  std::string devices, models, state, cluster;
  std::string stranger;  // the program; default: hase_stranger beside this one
  std::string record;    // write the rows here
  std::string replay;    // score these rows instead of measuring
  bool json = false;
};
Result<int> EvaluateLoad(const EvaluateLoadFlags& flags);

}  // namespace hase::cli

// hase evaluate --cpu: the CPU predictor on the profiles of this machine, a model family left out.
#pragma once

#include <string>

#include "base/result.h"

namespace hase::cli {

struct EvaluateCpuFlags {
  std::string device, state, cluster, rows;
  bool json = false;
};
Result<int> EvaluateCpu(const EvaluateCpuFlags& flags);

}  // namespace hase::cli

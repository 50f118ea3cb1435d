// hase evaluate --cpu: the CPU predictor on profiles of this machine, or on a recording of some, a
// model family left out.
#pragma once

#include <string>

#include "base/result.h"

namespace hase::cli {

struct EvaluateCpuFlags {
  std::string device, state, cluster;
  std::string rows;            // CSV of all scored rows, written
  std::string record, replay;  // a recording (latency/cpu_recording.h), written; read
  bool json = false;
};
Result<int> EvaluateCpu(const EvaluateCpuFlags& flags);

}  // namespace hase::cli

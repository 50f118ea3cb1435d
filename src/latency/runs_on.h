// Which runtimes have anything to do on which devices.
#pragma once

#include "cluster/device.h"

namespace hase::latency {

// ONNX Runtime's CPU provider runs on CPU partitions, all others on GPUs.
inline bool RunsOn(const cluster::DeviceType& type, model::Runtime runtime) {
  const bool cpu = type.spec.kind == cluster::DeviceKind::kCpu;
  return cpu == (runtime == model::Runtime::kOrtCpu);
}

}  // namespace hase::latency

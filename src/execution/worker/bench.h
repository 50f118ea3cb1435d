// The micro-benchmarks of one device, run through ONNX Runtime in worker processes, so that what is
// measured is what jobs get: the same library, partition and quota.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "cluster/micro_benchmarks.h"
#include "execution/worker/partition.h"
#include "model/ort/session.h"

namespace hase::execution {

struct BenchOptions {
  std::filesystem::path scratch;  // where the small models are written; removed again
  Nanos time = FromMillis(150);   // per benchmark
  model::ort::Provider provider = model::ort::Provider::kCpu;
  int clock_mhz = 0;                               // of the device while measuring; 0 = unknown
  std::function<void(std::string_view)> progress;  // name of each benchmark before it runs
};

// Rates are achieved ones under the partition's quota. host_to_device of a CPU is its large copy.
Result<cluster::MicroBenchmarks> RunMicroBenchmarks(const Partition& partition,
                                                    const BenchOptions& options);

// Now, as "2025-03-01T12:00:00Z".
std::string UtcNow();

}  // namespace hase::execution

// Measuring a model in a partition: a worker process is started, its model loaded, and batches are
// run until the time is known well enough. Benchmarks and profiles are made of this.
//
// With a quota below 1 a single call is either throttled or not, so its median means little; what a
// job sees is the mean. Hence `typical`: the median on whole cores, the mean under a quota.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "execution/worker/partition.h"
#include "execution/worker/worker.h"

namespace hase::execution {

struct MeasureOptions {
  int warm_up = 1;  // batches thrown away
  int min_runs = 5;
  Nanos min_time = FromMillis(500);  // measure at least this long …
  Nanos max_time = FromSeconds(10);  // … but start no run after this (one always happens)
  int max_runs = 2000;
};

struct Measurement {
  Loaded loaded;
  Bytes peak_run;
  int64_t runs = 0;
  Nanos typical, p10, p50, p90;
  std::vector<model::ort::NodeTime> nodes;  // where `load` turned the profiler on
  // (p90 - p10) / p50.
  double spread() const;
};

// Blocks until done. One worker, one load.
Result<Measurement> Measure(const Partition& partition, LoadRequest load,
                            const MeasureOptions& options);

}  // namespace hase::execution

// How far predictions were off, from what finished: the work after loading and the loading apart,
// because loading is a term of its own, and apart again for (model, batch) pairs that had never
// been profiled when they were predicted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/device.h"
#include "execution/outcome.h"
#include "workload/job.h"

namespace hase::measurement {

// One finished run's prediction against what was measured, seconds. Work: predicted solo time of
// what was done, against wall time over the predicted slow-down. Load: wall time until ready.
struct PredictionPoint {
  JobId job;
  DeviceId device;  // the first slot's
  bool load = false;
  double predicted_s = 0, measured_s = 0;
  double error() const;  // |predicted - measured| / measured
};
// In order of runs; only runs that ended well.
std::vector<PredictionPoint> PredictionPoints(const execution::Outcome& outcome);

struct ErrorSummary {
  int count = 0;
  double median = 0, mean = 0, p90 = 0;  // of |relative error|, fractions
};
ErrorSummary Summarise(std::vector<double> errors);

}  // namespace hase::measurement

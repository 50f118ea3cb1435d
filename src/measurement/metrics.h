// Metrics: the figures of one run, computed from its Outcome. Names and units are those of the
// command line's JSON (docs/formats.md, "simulate and run").
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/device.h"
#include "execution/outcome.h"

namespace hase::measurement {

struct Metrics {
  int jobs = 0, finished = 0, failed = 0, rejected = 0, cancelled = 0;
  double makespan_s = 0;         // first arrival to last end
  double mean_completion_s = 0;  // arrival to end, of the finished
  double p99_completion_s = 0;
  double mean_wait_s = 0, p99_wait_s = 0;  // arrival to first start
  // Device time booked (its share) over devices × makespan.
  double utilisation = 0;
  double deadline_miss = 0;  // fraction of the jobs with a deadline that ended late or never
  int deadlines = 0;
  double decision_p50_us = 0, decision_p99_us = 0, decision_max_us = 0;
  int64_t decisions = 0, events = 0;
  int out_of_memory = 0, overruns = 0, backfilled = 0;
  // First reservations of jobs that were started, and of those the ones started in time.
  int promises_made = 0, promises_kept = 0, promises_on_lost_devices = 0;
  double promised_probability = 0;  // mean
  // Median |observed / predicted - 1| of runs' solo time after load; 0 where nothing finished.
  double prediction_median_ape = 0, prediction_mape = 0;
};

Metrics ComputeMetrics(const execution::Outcome& outcome, size_t devices);

// (rr - x) / (rr - bound): 0 = no better than round-robin, 1 = the bound. None where round-robin is
// within a thousandth of the bound: there is no gap to close.
std::optional<double> ClosedGap(double round_robin, double x, double bound);

}  // namespace hase::measurement

// Estimate: what the predictor says of one model on one device type at one batch, as a
// distribution.
//
// Uncertainty is two-fold: a log-error shared by all runs of this model on this device (if the
// model was mispredicted, every batch is), and an independent part per run. So N batches take
//   mean N·mean, variance (N·mean)²·shared² + N·mean²·independent²,
// and quantiles of a job, of a chunk or of the last of several residents come from that, never from
// adding p90s.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "model/kernel.h"

namespace hase::latency {

// A log-normal described by its mean and variance in seconds; sums add moments.
struct Spread {
  double mean_s = 0;
  double variance_s2 = 0;
  // The value not exceeded with probability p in (0, 1).
  double Quantile(double p) const;
  // Probability of ending within t.
  double Cdf(double t_s) const;
  Spread ScaledBy(double factor) const { return {mean_s * factor, variance_s2 * factor * factor}; }
};
Spread operator+(const Spread& a, const Spread& b);  // independent parts

struct KernelEstimate {
  std::string name;
  model::OpClass op_class = model::OpClass::kOther;
  double latency_us = 0;
  double roofline_us = 0;
  bool extrapolated = false;
  std::string basis;  // "measured", "trees", "roofline × 1.8 (conv on this device)"
};

struct Estimate {
  double latency_s = 0;          // p50 of one run of one batch, solo, whole device
  double shared_sigma = 0;       // log scale
  double independent_sigma = 0;  // log scale
  double load_s = 0;             // cold start: process, context, model load, warm-up
  double load_sigma = 0;         // log scale
  Bytes memory_load;             // peak while the model loads
  Bytes memory_run;              // peak while it runs
  bool extrapolated = false;
  std::string basis;  // what the latency rests on, one line
  // Fractions of the run bound by each resource, for slow-down under sharing; they sum to 1.
  double compute_part = 0, bandwidth_part = 0, launch_part = 0;
  double dram_demand = 0;  // fraction of the device's bandwidth used while running alone
  double sm_demand = 0;    // fraction of its compute used while running alone
  std::vector<KernelEstimate> kernels;  // empty unless asked for

  Bytes memory() const { return memory_load > memory_run ? memory_load : memory_run; }
  // Time of `runs` batches, without loading.
  Spread Runs(double runs) const;
  // The same, with loading first if `cold`.
  Spread Job(double runs, bool cold) const;
  double QuantileOfOne(double p) const;  // of a single batch, seconds
};

}  // namespace hase::latency

// How wrong the CPU predictor is on models of families it never saw: each family of the
// zoo in turn, predicted without any sample of any of its models (`hase evaluate --cpu`). Kernels
// that `hase calibrate` swept belong to no family; they are knowledge of the device, and the
// evaluation is made with and without them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "latency/sample.h"
#include "model/kernel.h"

namespace hase::latency {

struct CpuScore {
  std::string model, what;  // what: of a kernel its op class
  std::string family;
  int64_t batch = 1;
  double observed_us = 0, predicted_us = 0;
  double p10_us = 0, p90_us = 0;
  bool measured = false;  // kernels: the very geometry was measured in another family
};

struct CpuEvaluation {
  std::vector<CpuScore> models, kernels;  // kernels of kLeastKernelUs and more
  int sweep_kernels = 0, folds = 0;
};
constexpr double kLeastKernelUs = 20;

// The kernel list of a model at a batch, as `hase predict` would have it.
using KernelsOf =
    std::function<Result<const model::ModelKernels*>(const std::string& model, int64_t batch)>;

// Gives profiled kernels without it their reuse (Kernel::reuse), by name from the kernel lists:
// rows of older stores lack it. Models that `kernels` does not know stay as they are.
void FillReuse(std::vector<Sample>& samples, const KernelsOf& kernels);

// `samples`: profiles of one machine; only those of `type` (a CPU partition) count. `sweep`: use
// the samples of `hase calibrate`. Error if fewer than two families were profiled.
Result<CpuEvaluation> EvaluateCpu(const std::vector<Sample>& samples,
                                  const cluster::DeviceType& type, const KernelsOf& kernels,
                                  bool sweep);

struct CpuSummary {
  int rows = 0;
  double mape = 0, median_ape = 0, r2_log = 0;
  double coverage = 0;        // of p10–p90
  double interval_score = 0;  // mean, in log; over that of intervals of one width for all
  double constant_score = 0;
};
CpuSummary Summarise(const std::vector<const CpuScore*>& scores);

}  // namespace hase::latency

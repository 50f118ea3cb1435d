// CpuKernelModel: how long one kernel takes on this machine's CPU, from kernels measured on it.
//
//   t = baseline(kernel) · exp(r)
//   baseline = flops / peak + traffic + dispatch          convolutions and matrices
//            = max(flops / peak, bytes / bandwidth) + dispatch         all else
//
// r is interpolated between measured kernels of the same op class in the space of log geometry
// (local_regressor.h); a kernel whose very geometry was measured keeps its measurement. peak and
// bandwidth are the best that any sample reached, so the baseline is a true roofline of what this
// CPU and runtime can do. What the distances know of ONNX Runtime's blocked convolutions (vector
// width 16 on AVX-512, output rows in steps of 6, filters in blocks of 4 vectors): partly filled
// blocks are features of their own.
//
// The same kernel takes up to three times as long where its input, the buffer it writes or its
// weights have left the caches since they were last touched. So how much memory was touched since
// (Kernel::reuse) is in the traffic of convolutions and matrices (cpu_traffic.h) and a coordinate
// of copies, pools, sums and what else does little but move memory. How much memory the model works
// on (WorkingSet) is a coordinate of all, the only such one of the others, and stands in for a
// reuse that is not known.
//
// Not modelled: NUMA, hyper-threads, clock changes with the width of the vectors.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "latency/cpu_traffic.h"
#include "latency/local_regressor.h"
#include "latency/sample.h"

namespace hase::latency {

struct CpuKernelTime {
  double latency_us = 0;
  double baseline_us = 0;
  double sigma = 0;  // log scale
  bool measured = false;
  bool extrapolated = false;  // no sample of this op class, or none near
};

// What a run of the model goes through: the greatest input and output of one kernel, and all
// weights, bytes. Of the kernels alone, so that samples know theirs.
struct WorkingSet {
  double activations = 0, weights = 0;
  void Add(const model::Kernel& kernel);
};
WorkingSet WorkingSetOf(std::span<const model::Kernel> kernels);
// By model and batch, as far as their kernels were measured.
using WorkingSets = std::map<std::pair<std::string, int64_t>, WorkingSet>;
WorkingSets WorkingSetsOf(std::span<const Sample* const> samples);

class CpuKernelModel {
 public:
  // Kernel samples (not whole models) of one machine, core count and runtime; others are ignored by
  // the caller. Several samples of one geometry count by their median.
  // `peak` and `bandwidth` stand in while there are no samples to take them from.
  explicit CpuKernelModel(std::span<const Sample* const> samples, double flops_per_us = 50e3,
                          double bytes_per_us = 10e3);

  bool empty() const { return kernels_ == 0; }
  size_t kernels() const { return kernels_; }
  size_t kernels(model::OpClass c) const { return classes_[static_cast<size_t>(c)].size(); }

  // `without`: names of models whose samples must not be used (honest evaluation).
  CpuKernelTime Predict(const model::Kernel& kernel, const WorkingSet& set,
                        std::span<const std::string> without = {}) const;

  // Fits the deviations that Predict gives to what it is really off by: per op class, the factor at
  // which p10–p90 holds four fifths of the samples (of 20 us and more, at most some hundreds), each
  // predicted without its whole family. `family`: of a model's name.
  void FitDeviations(std::span<const Sample* const> samples,
                     const std::function<std::string(const std::string&)>& family);

 private:
  struct Point {
    double us = 0;
    uint32_t group = 0;
    std::vector<double> warmth;  // coordinates
  };
  double Baseline(const model::Kernel& kernel, const WorkingSet& set) const;
  std::vector<uint32_t> Groups(std::span<const std::string> models) const;

  size_t kernels_ = 0;
  double peak_flops_per_us_;
  double bytes_per_us_;
  CpuTraffic traffic_;
  std::array<LocalRegressor, model::kOpClassCount> classes_;
  LocalRegressor all_;  // op classes without samples of their own: a typical residual
  std::unordered_map<std::string, std::vector<Point>> exact_;  // by geometry, batch included
  std::unordered_map<std::string, uint32_t> groups_;           // model name → group
  std::array<double, model::kOpClassCount> deviation_;         // factor on interpolated sigmas
};

// Coordinates of a kernel in its op class's space, divided by length scales. Same size for every
// kernel of a class.
std::vector<double> CpuCoordinates(const model::Kernel& kernel, const WorkingSet& set);
// Those of them that tell how warm its memory is, the last ones.
std::vector<double> WarmthCoordinates(const model::Kernel& kernel, const WorkingSet& set);

}  // namespace hase::latency

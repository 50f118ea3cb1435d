// CpuKernelModel: how long one kernel takes on this machine's CPU, from kernels measured on it.
//
//   t = baseline(kernel) · exp(r),   baseline = max(flops / peak, bytes / bandwidth) + dispatch
//
// r is interpolated between measured kernels of the same op class in the space of log geometry
// (local_regressor.h); a kernel whose very geometry was measured keeps its measurement. peak and
// bandwidth are the best that any sample reached, so the baseline is a true roofline of what this
// CPU and runtime can do. What the distances know of ONNX Runtime's blocked convolutions (vector
// width 16 on AVX-512, output rows in steps of 6, filters in blocks of 4 vectors): partly filled
// blocks are features of their own.
//
// Not modelled: NUMA, hyper-threads, clock changes with the width of the vectors.
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

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
  CpuKernelTime Predict(const model::Kernel& kernel,
                        std::span<const std::string> without = {}) const;

 private:
  struct Point {
    double us = 0;
    uint32_t group = 0;
  };
  double Baseline(const model::Kernel& kernel) const;
  std::vector<uint32_t> Groups(std::span<const std::string> models) const;

  size_t kernels_ = 0;
  double peak_flops_per_us_;
  double bytes_per_us_;
  std::array<LocalRegressor, model::kOpClassCount> classes_;
  LocalRegressor all_;  // op classes without samples of their own: a typical residual
  std::unordered_map<std::string, std::vector<Point>> exact_;  // by geometry, batch included
  std::unordered_map<std::string, uint32_t> groups_;           // model name → group
};

// Coordinates of a kernel in its op class's space, divided by length scales. Same size for every
// kernel of a class.
std::vector<double> CpuCoordinates(const model::Kernel& kernel);

}  // namespace hase::latency

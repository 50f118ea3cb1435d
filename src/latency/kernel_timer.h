// KernelTimer: times all kernels of a model on one device, from whatever knows that device: kernels
// measured on this CPU (cpu_kernel_model.h) or the trained trees (kernel_model.h). Identical
// kernels are timed once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/device.h"
#include "latency/cpu_kernel_model.h"
#include "latency/estimate.h"
#include "latency/kernel_model.h"
#include "model/kernel.h"

namespace hase::latency {

struct KernelTimes {
  double sum_us = 0;
  // Log-scale deviation of the sum: an error shared by all kernels, and what is left of their own
  // errors after adding them up.
  double shared_sigma = 0, own_sigma = 0;
  bool extrapolated = false;
  double measured_part = 0;  // of the sum, from kernels whose very geometry was measured
  // Parts of the sum by what bounds the kernel, and time-weighted demands (estimate.h).
  double compute_part = 0, bandwidth_part = 0, launch_part = 0;
  double sm_demand = 0, dram_demand = 0;
  std::vector<KernelEstimate> kernels;  // in execution order
};

KernelTimes TimeOnCpu(const model::ModelKernels& model, const CpuKernelModel& kernels,
                      const cluster::DeviceType& type, std::span<const std::string> without = {});
KernelTimes TimeOnGpu(const model::ModelKernels& model, const KernelModel& kernels,
                      const cluster::DeviceType& type, bool old_libraries = false);

// Thread blocks that a kernel can spread over processors, for what it can fill: 128 × 64 output
// tiles of GEMM-like kernels, 1024 elements otherwise.
double ThreadBlocks(const model::Kernel& kernel);

}  // namespace hase::latency

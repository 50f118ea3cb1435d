// MemoryModel: the two peaks of a model's process, at load and in the run, from the model's memory
// terms. Coefficients are fitted to measured peaks (data/memory_ort_cpu.yaml says how, and with
// what result) and mean something:
//   load = base + margin · (fixed + c · convolution weights + other weights + the largest weight)
//          c: the file's copy, the blocked copy ONNX Runtime makes of it, and what the arena keeps;
//          the largest weight is there twice while it is packed
//   run  = base + fixed + per_kernel · kernels + c' · convolution weights + other weights
//          + a · activations + input + output
//          a: the first run's arena stays beside the block planned for later runs, and the arena
//          grows by powers of two
// GPUs: context + weights + activations + workspace, as the arena grows; not measured here.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cluster/device.h"
#include "model/kernel.h"

namespace hase::latency {

struct MemoryPeaks {
  Bytes load, run;
};

struct CpuMemoryLaw {
  Bytes base = Bytes(30'000'000);  // a worker with ONNX Runtime loaded and no model
  double load_fixed = 18.8e6, load_convolutions = 2.53, load_margin = 1.10;
  double run_fixed = 16.5e6, run_per_kernel = 18771, run_convolutions = 2.635;
  double run_activations = 3.675;
};

// Bytes of weights that convolutions read; blocked copies are made of them.
Bytes ConvolutionWeights(const model::ModelKernels& model);
Bytes LargestWeights(const model::ModelKernels& model);  // of one kernel

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law);
MemoryPeaks GpuMemory(const model::ModelKernels& model, const cluster::DeviceType& type);

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& yaml);

}  // namespace hase::latency

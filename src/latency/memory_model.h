// MemoryModel: the two peaks of a model's process, at load and in the run, from the model's memory
// terms. Coefficients are fitted to measured peaks (data/memory_ort_cpu.yaml says how, and with
// what result) and mean something:
//   load = base + the greatest of three moments:
//     reorder_fixed + reorder_largest · the largest convolution's weights + reorder_per_kernel ·
//       kernels + 2 · convolution weights + other weights       blocked copies stand beside them
//     pack_fixed + weights + largest other weight               matrices are packed one by one
//     run_fixed + per_kernel · kernels + weights + input        loaded, the input made
//   run  = base + run_fixed + per_kernel · kernels + weights + a · arena + input + output
//     arena: what the session's arena holds after a run (model/arena.h)
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
  Bytes base;  // a worker with ONNX Runtime loaded and no model
  double reorder_fixed = 0, reorder_largest = 0, reorder_per_kernel = 0, pack_fixed = 0;
  double run_fixed = 0, run_per_kernel = 0, run_arena = 1;
};

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law);
MemoryPeaks GpuMemory(const model::ModelKernels& model, const cluster::DeviceType& type);

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& yaml);
Result<CpuMemoryLaw> ShippedCpuMemoryLaw();  // data/memory_ort_cpu.yaml

}  // namespace hase::latency

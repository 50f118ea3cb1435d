// MemoryModel: the two peaks of a model's process, at load and in the run, from the model's memory
// terms. Coefficients are fitted to measured peaks (data/memory_ort_cpu.yaml says how, and with
// what result) and mean something:
//   load = base + per_node · nodes + max over the moments of loading:
//            file     file_copies · weights              the parsed file beside the initialisers
//            packing  (weights + packed weights)         blocked and packed copies
//   run  = base + per_node · nodes + resident · weights + packed + arena · activations + input,
//   output
// GPUs: context + weights + activations + workspace, rounded as the arena grows; not measured here.
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
  Bytes base = MiB(32);  // the process with ONNX Runtime loaded and nothing else
  Bytes per_kernel = Bytes(40 << 10);
  double load_weights = 2.0;  // copies of all weights at once while loading
  double load_packed = 0.3;   // of those that convolutions read, on top
  double run_weights = 1.2;   // resident after loading
  double run_packed = 0.8;
  double run_activations = 1.1;
  double run_workspace = 0.0;
  double run_io = 1.0;
  double margin = 1.03;  // so that few cases are under-predicted
};

// Bytes of weights that convolutions read; blocked copies are made of them.
Bytes ConvolutionWeights(const model::ModelKernels& model);

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law);
MemoryPeaks GpuMemory(const model::ModelKernels& model, const cluster::DeviceType& type);

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& yaml);

}  // namespace hase::latency

#include "latency/memory_model.h"

#include <algorithm>

#include "base/paths.h"
#include "base/yaml.h"

namespace hase::latency {
namespace {

double Of(Bytes b) { return static_cast<double>(b.value()); }
Bytes Round(double bytes) { return Bytes(static_cast<int64_t>(bytes)); }

}  // namespace

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law) {
  double convolutions = 0, largest = 0, largest_other = 0;
  for (const auto& kernel : model.kernels) {
    const auto bytes = static_cast<double>(kernel.bytes_weights);
    if (model::IsConvolution(kernel.op_class)) {
      convolutions += bytes;
      largest = std::max(largest, bytes);
    } else {
      largest_other = std::max(largest_other, bytes);
    }
  }
  const double weights = std::max(Of(model.memory.weights), convolutions);
  const auto kernels = static_cast<double>(model.kernels.size());
  const double loaded =
      law.run_fixed + law.run_per_kernel * kernels + weights + Of(model.memory.input);
  const double reorder = law.reorder_fixed + law.reorder_largest * largest +
                         law.reorder_per_kernel * kernels + weights + convolutions;
  const double load = std::max({reorder, law.pack_fixed + weights + largest_other, loaded});
  const double run = loaded + law.run_arena * Of(model.memory.arena) + Of(model.memory.output);
  return {Round(Of(law.base) + load), Round(Of(law.base) + run)};
}

MemoryPeaks GpuMemory(const model::ModelKernels& model, const cluster::DeviceType& type) {
  // Context with cuDNN and cuBLAS loaded: 300 MiB and, per processor, the local-memory reserve of
  // 2 MiB or so; PyTorch loads more kernels.
  const double context = Of(MiB(300)) + Of(MiB(2)) * type.spec.sm_count +
                         (type.runtime == model::Runtime::kPyTorch ? Of(MiB(250)) : 0);
  const double weights = Of(model.memory.weights);
  // The arena extends by powers of two, which leaves up to half of an extension unused.
  const double run =
      context + weights +
      1.25 * (Of(model.memory.peak_activations) + Of(model.memory.largest_workspace)) +
      Of(model.memory.input) + Of(model.memory.output);
  const double load = context + weights * (type.runtime == model::Runtime::kTensorRt ? 2.0 : 1.1);
  return {Round(load), Round(run)};
}

Result<CpuMemoryLaw> ShippedCpuMemoryLaw() {
  HASE_ASSIGN_OR_RETURN(const auto file, DataFile("memory_ort_cpu.yaml"));
  return LoadCpuMemoryLaw(file);
}

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& path) {
  HASE_ASSIGN_OR_RETURN(const Yaml yaml, Yaml::Load(path.string()));
  HASE_RETURN_IF_ERROR(
      yaml.CheckKeys({"base_bytes", "reorder_fixed", "reorder_largest", "reorder_per_kernel",
                      "pack_fixed", "run_fixed", "run_per_kernel", "run_arena"}));
  CpuMemoryLaw law;
  HASE_ASSIGN_OR_RETURN(const int64_t base, yaml.Integer("base_bytes"));
  law.base = Bytes(base);
  const std::pair<const char*, double CpuMemoryLaw::*> fields[] = {
      {"reorder_fixed", &CpuMemoryLaw::reorder_fixed},
      {"reorder_largest", &CpuMemoryLaw::reorder_largest},
      {"reorder_per_kernel", &CpuMemoryLaw::reorder_per_kernel},
      {"pack_fixed", &CpuMemoryLaw::pack_fixed},
      {"run_fixed", &CpuMemoryLaw::run_fixed},
      {"run_per_kernel", &CpuMemoryLaw::run_per_kernel},
      {"run_arena", &CpuMemoryLaw::run_arena}};
  for (const auto& [key, field] : fields) {
    HASE_ASSIGN_OR_RETURN(law.*field, yaml.Number(key));
    if (law.*field < 0) {
      return Invalid(yaml.Get(key)->Where() + ": " + key + " must not be negative");
    }
  }
  return law;
}

}  // namespace hase::latency

#include "latency/memory_model.h"

#include <algorithm>
#include <set>

#include "base/yaml.h"

namespace hase::latency {
namespace {

double Of(Bytes b) { return static_cast<double>(b.value()); }
Bytes Round(double bytes) { return Bytes(static_cast<int64_t>(bytes)); }

}  // namespace

Bytes ConvolutionWeights(const model::ModelKernels& model) {
  int64_t bytes = 0;
  for (const auto& kernel : model.kernels) {
    const bool convolution = kernel.op_class == model::OpClass::kConv ||
                             kernel.op_class == model::OpClass::kDepthwiseConv ||
                             kernel.op_class == model::OpClass::kGroupedConv;
    if (convolution) bytes += kernel.bytes_weights;
  }
  return Bytes(bytes);
}

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law) {
  const double weights = Of(model.memory.weights), packed = Of(ConvolutionWeights(model));
  const double fixed =
      Of(law.base) + Of(law.per_kernel) * static_cast<double>(model.kernels.size());
  const double load = fixed + law.load_weights * weights + law.load_packed * packed;
  const double run = fixed + law.run_weights * weights + law.run_packed * packed +
                     law.run_activations * Of(model.memory.peak_activations) +
                     law.run_workspace * Of(model.memory.largest_workspace) +
                     law.run_io * (Of(model.memory.input) + Of(model.memory.output));
  return {Round(load * law.margin), Round(run * law.margin)};
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

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& path) {
  HASE_ASSIGN_OR_RETURN(const Yaml yaml, Yaml::Load(path.string()));
  HASE_RETURN_IF_ERROR(yaml.CheckKeys({"base_bytes", "per_kernel_bytes", "load_weights",
                                       "load_packed", "run_weights", "run_packed",
                                       "run_activations", "run_workspace", "run_io", "margin"}));
  CpuMemoryLaw law;
  HASE_ASSIGN_OR_RETURN(const int64_t base, yaml.Integer("base_bytes"));
  HASE_ASSIGN_OR_RETURN(const int64_t per_kernel, yaml.Integer("per_kernel_bytes"));
  law.base = Bytes(base);
  law.per_kernel = Bytes(per_kernel);
  const std::pair<const char*, double CpuMemoryLaw::*> fields[] = {
      {"load_weights", &CpuMemoryLaw::load_weights},
      {"load_packed", &CpuMemoryLaw::load_packed},
      {"run_weights", &CpuMemoryLaw::run_weights},
      {"run_packed", &CpuMemoryLaw::run_packed},
      {"run_activations", &CpuMemoryLaw::run_activations},
      {"run_workspace", &CpuMemoryLaw::run_workspace},
      {"run_io", &CpuMemoryLaw::run_io},
      {"margin", &CpuMemoryLaw::margin}};
  for (const auto& [key, field] : fields) {
    HASE_ASSIGN_OR_RETURN(law.*field, yaml.Number(key));
    if (law.*field < 0) {
      return Invalid(yaml.Get(key)->Where() + ": " + key + " must not be negative");
    }
  }
  return law;
}

}  // namespace hase::latency

#include "latency/memory_model.h"

#include <algorithm>

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

Bytes LargestWeights(const model::ModelKernels& model) {
  int64_t bytes = 0;
  for (const auto& kernel : model.kernels) bytes = std::max(bytes, kernel.bytes_weights);
  return Bytes(bytes);
}

MemoryPeaks CpuMemory(const model::ModelKernels& model, const CpuMemoryLaw& law) {
  const double convolutions = Of(ConvolutionWeights(model));
  const double others = std::max(Of(model.memory.weights) - convolutions, 0.0);
  const double load = law.load_margin * (law.load_fixed + law.load_convolutions * convolutions +
                                         others + Of(LargestWeights(model)));
  const double run = law.run_fixed +
                     law.run_per_kernel * static_cast<double>(model.kernels.size()) +
                     law.run_convolutions * convolutions + others +
                     law.run_activations * Of(model.memory.peak_activations) +
                     Of(model.memory.input) + Of(model.memory.output);
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

Result<CpuMemoryLaw> LoadCpuMemoryLaw(const std::filesystem::path& path) {
  HASE_ASSIGN_OR_RETURN(const Yaml yaml, Yaml::Load(path.string()));
  HASE_RETURN_IF_ERROR(
      yaml.CheckKeys({"base_bytes", "load_fixed", "load_convolutions", "load_margin", "run_fixed",
                      "run_per_kernel", "run_convolutions", "run_activations"}));
  CpuMemoryLaw law;
  HASE_ASSIGN_OR_RETURN(const int64_t base, yaml.Integer("base_bytes"));
  law.base = Bytes(base);
  const std::pair<const char*, double CpuMemoryLaw::*> fields[] = {
      {"load_fixed", &CpuMemoryLaw::load_fixed},
      {"load_convolutions", &CpuMemoryLaw::load_convolutions},
      {"load_margin", &CpuMemoryLaw::load_margin},
      {"run_fixed", &CpuMemoryLaw::run_fixed},
      {"run_per_kernel", &CpuMemoryLaw::run_per_kernel},
      {"run_convolutions", &CpuMemoryLaw::run_convolutions},
      {"run_activations", &CpuMemoryLaw::run_activations}};
  for (const auto& [key, field] : fields) {
    HASE_ASSIGN_OR_RETURN(law.*field, yaml.Number(key));
    if (law.*field < 0) {
      return Invalid(yaml.Get(key)->Where() + ": " + key + " must not be negative");
    }
  }
  return law;
}

}  // namespace hase::latency

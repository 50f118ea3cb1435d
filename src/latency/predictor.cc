#include "latency/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "latency/runs_on.h"

namespace hase::latency {
namespace {

// What a run costs besides its kernels, on GPUs. The host enqueues a kernel in `dispatch_us`: a
// model of tiny kernels takes as long as its enqueueing. From public profiles of the runtimes'
// eager paths; corrected by any whole model measured on the device.
struct RuntimeCosts {
  double dispatch_us, run_us;
};
RuntimeCosts CostsOf(model::Runtime runtime) {
  switch (runtime) {
    case model::Runtime::kTensorRt:
      return {1.5, 15};
    case model::Runtime::kPyTorch:
      return {8, 30};
    case model::Runtime::kOrtCuda:
    case model::Runtime::kOrtCpu:
      return {5, 25};
  }
  return {5, 25};
}

constexpr double kGpuRunNoise = 0.02;
constexpr double kGpuGapSigma = 0.08;     // gaps, copies and overhead, of the whole
constexpr double kEstimatedBench = 0.15;  // a card known by its data sheet only
constexpr double kExtrapolatedSigma = 0.25;

// Cold start on a CPU where nothing was measured: process and session, then per node and per byte
// of weights (read, parsed, packed). Measured on one core of a Xeon (docs/predictor-cpu.md).
constexpr double kLoadBase = 0.06, kLoadPerKernel = 3e-4, kLoadPerByte = 3.5e-9;
constexpr double kGpuContext = 2.5;  // CUDA context, cuDNN and cuBLAS
constexpr double kLoadSigma = 0.35, kMeasuredLoadSigma = 0.15;

// Eager PyTorch keeps tensors as NCHW, tensor cores want NHWC: cuDNN turns the input of every fp16
// convolution round and its output back, reading and writing each once, by kernels of their own;
// for Ampere and later it has kernels that do part of that themselves (the part left was fitted on
// the three calibration networks of model_level.h).
constexpr double kCopyEfficiency = 0.8, kLayoutLaunch = 3, kAmpereLayoutPart = 0.35;
double LayoutMicros(const model::ModelKernels& model, const cluster::DeviceType& type) {
  if (type.runtime != model::Runtime::kPyTorch || type.spec.compute_capability < 70) return 0;
  const double part = type.spec.compute_capability >= 80 ? kAmpereLayoutPart : 1;
  double us = 0;
  for (const auto& k : model.kernels) {
    if (k.op_class != model::OpClass::kConv || k.precision != model::Precision::kFp16) continue;
    const auto bytes = static_cast<double>(2 * (k.bytes_activations + k.bytes_written));
    us += part * bytes / (kCopyEfficiency * 1e3 * std::max(type.spec.bandwidth_gb_s, 10.0)) +
          2 * kLayoutLaunch;
  }
  return us;
}

double Reciprocal(double value) { return value > 0 ? 1 / value : 0; }

}  // namespace

Predictor::Predictor(const KernelSource* kernels, std::vector<cluster::DeviceType> types,
                     std::vector<Sample> samples, Options options)
    : source_(kernels),
      types_(std::move(types)),
      evidence_(std::move(samples)),
      options_(std::move(options)),
      roofline_only_(KernelModel::RooflineOnly()),
      cpu_(&evidence_, options_.without) {}

const Estimate* Predictor::Find(ModelId model, DeviceTypeId type, int64_t batch) const {
  const Key key{model, type, batch};
  auto it = memo_.find(key);
  if (it == memo_.end()) {
    auto estimate = Compute(model, types_[type.index()], batch);
    if (estimate) {
      estimate->kernels.clear();
      estimate->kernels.shrink_to_fit();
    }
    it = memo_.emplace(key, std::move(estimate)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::string Predictor::WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const {
  if (Find(model, type, batch) != nullptr) return "";
  return memo_.at({model, type, batch}).error().message;
}

Result<Estimate> Predictor::Explain(ModelId model, DeviceTypeId type, int64_t batch) const {
  return Compute(model, types_[type.index()], batch);
}

Result<Estimate> Predictor::Compute(ModelId id, const cluster::DeviceType& type,
                                    int64_t batch) const {
  HASE_ASSIGN_OR_RETURN(const model::ModelKernels* model,
                        source_->Kernels(id, type.runtime, batch));
  if (!RunsOn(type, model->runtime)) {  // a model may wish for its own
    return Infeasible(fmt::format("{}: runtime {} does not run on {}", model->model,
                                  model::ToString(model->runtime), type.name));
  }
  Result<Estimate> estimate = type.spec.kind == cluster::DeviceKind::kCpu
                                  ? ComputeCpu(id, *model, type)
                                  : Result<Estimate>(ComputeGpu(*model, type));
  if (!estimate) return estimate;
  if (!std::isfinite(estimate->latency_s) || estimate->latency_s <= 0) {
    return Invalid(fmt::format("{} at batch {} on {}: no finite estimate ({} kernels)",
                               model->model, batch, type.name, model->kernels.size()));
  }
  FillMemoryAndLoad(*model, type, &*estimate);
  return estimate;
}

Result<Estimate> Predictor::ComputeCpu(ModelId id, const model::ModelKernels& model,
                                       const cluster::DeviceType& type) const {
  auto answer = cpu_.Predict(
      model, type, [&](int64_t batch) { return source_->Kernels(id, type.runtime, batch); });
  Estimate e;
  e.latency_s = answer.latency_us * 1e-6;
  e.shared_sigma = answer.shared_sigma;
  e.independent_sigma = answer.independent_sigma;
  e.extrapolated = answer.extrapolated;
  e.basis = std::move(answer.basis);
  e.compute_part = answer.times.compute_part;
  e.bandwidth_part = answer.times.bandwidth_part;
  e.launch_part = answer.times.launch_part;
  e.sm_demand = 1;
  e.dram_demand = answer.times.dram_demand;
  e.kernels = std::move(answer.times.kernels);
  return e;
}

Estimate Predictor::ComputeGpu(const model::ModelKernels& model,
                               const cluster::DeviceType& type) const {
  const KernelModel& trees =
      options_.kernel_model != nullptr ? *options_.kernel_model : roofline_only_;
  KernelTimes times = TimeOnGpu(model, trees, type, options_.old_libraries);
  const double layout_us = LayoutMicros(model, type);
  const RuntimeCosts costs = CostsOf(type.runtime);
  const double enqueue_us = costs.dispatch_us * static_cast<double>(model.kernels.size());
  const double copy_us = static_cast<double>((model.memory.input + model.memory.output).value()) *
                         Reciprocal((type.spec.pcie_gb_s > 0 ? type.spec.pcie_gb_s : 12) * 0.8e3);
  double total_us = std::max(times.sum_us + layout_us, enqueue_us) + costs.run_us + copy_us;
  double variance = times.shared_sigma * times.shared_sigma + times.own_sigma * times.own_sigma +
                    kGpuGapSigma * kGpuGapSigma;
  if (!type.bench.measured) variance += kEstimatedBench * kEstimatedBench;
  if (times.extrapolated) variance += kExtrapolatedSigma * kExtrapolatedSigma;
  Estimate e;
  e.basis = fmt::format("{} kernels {:.3f} ms, enqueueing {:.3f} ms, copies {:.3f} ms",
                        model.kernels.size(), times.sum_us / 1e3, enqueue_us / 1e3, copy_us / 1e3);
  if (layout_us > 0) e.basis += fmt::format(", tensor layouts {:.3f} ms", layout_us / 1e3);
  const auto& measured = evidence_.Of(type.name, type.runtime, model.precision, model.model);
  if (const auto it = measured.find(model.batch); it != measured.end()) {
    total_us = it->second.latency_us;
    variance = 0.03 * 0.03 + it->second.between * it->second.between;
    times.extrapolated = false;
    e.basis = fmt::format("measured on {} at batch {}", type.name, model.batch);
  }
  e.latency_s = total_us * 1e-6;
  e.shared_sigma = std::sqrt(variance);
  e.independent_sigma = kGpuRunNoise;
  e.extrapolated = times.extrapolated;
  const double device_part = std::min(1.0, times.sum_us / std::max(total_us, 1e-9));
  e.compute_part = times.compute_part * device_part;
  e.bandwidth_part = times.bandwidth_part * device_part;
  e.launch_part = 1 - e.compute_part - e.bandwidth_part;
  e.sm_demand = times.sm_demand * device_part;
  e.dram_demand = times.dram_demand * device_part;
  e.kernels = std::move(times.kernels);
  return e;
}

void Predictor::FillMemoryAndLoad(const model::ModelKernels& model, const cluster::DeviceType& type,
                                  Estimate* e) const {
  const bool cpu = type.spec.kind == cluster::DeviceKind::kCpu;
  const double weights = static_cast<double>(model.memory.weights.value());
  const auto peaks = cpu ? CpuMemory(model, options_.cpu_memory) : GpuMemory(model, type);
  e->memory_load = peaks.load;
  e->memory_run = peaks.run;
  const double work =
      kLoadPerKernel * static_cast<double>(model.kernels.size()) + kLoadPerByte * weights;
  const double rate = cpu ? ToFraction(type.quota) : 1;
  e->load_s = (kLoadBase + work) / rate + (cpu ? 0 : kGpuContext);
  e->load_sigma = kLoadSigma;
  const bool hidden = std::ranges::find(options_.without, model.model) != options_.without.end();
  if (!cpu || hidden) return;
  // Loading does not depend on the batch, nor on the partition but for its quota.
  double best_sigma = kLoadSigma;
  for (const auto& device : evidence_.Devices(model::Runtime::kOrtCpu)) {
    const auto ratio = cpu_.Scale(device, type.name);
    if (!ratio) continue;
    for (const auto& [batch, whole] :
         evidence_.Of(device, type.runtime, model.precision, model.model)) {
      if (batch == model.batch && whole.memory_run.value() > 0) {
        e->memory_load = std::max(whole.memory_load, Bytes(0));
        e->memory_run = whole.memory_run;
      }
      const double sigma =
          std::hypot(kMeasuredLoadSigma, ratio->sigma) + (batch == model.batch ? 0 : 0.01);
      if (whole.load_s <= 0 || sigma >= best_sigma) continue;
      best_sigma = sigma;
      e->load_s = whole.load_s * std::exp(ratio->log_factor);
      e->load_sigma = sigma;
    }
  }
}

namespace {

// How tenants share this type unless told otherwise.
cluster::ShareMode UsualMode(const cluster::DeviceType& type) {
  if (type.spec.kind == cluster::DeviceKind::kCpu) return cluster::ShareMode::kCpuQuota;
  // Shares in space need MPS with per-client limits: compute capability 7.0.
  return type.spec.compute_capability >= 70 ? cluster::ShareMode::kMps
                                            : cluster::ShareMode::kTimeSlice;
}

SharingLaw LawOf(const cluster::DeviceType& type, cluster::ShareMode mode) {
  SharingLaw law;
  law.quota = ToFraction(type.quota);
  law.sm_count = std::max(type.spec.sm_count, 1);
  if (type.spec.kind == cluster::DeviceKind::kCpu) {
    law.kind = SharingKind::kCpu;
  } else if (mode == cluster::ShareMode::kTimeSlice) {
    law.kind = SharingKind::kTimeSlice;
  } else if (mode == cluster::ShareMode::kMig) {
    law.kind = SharingKind::kMig;
  } else {
    law.kind = SharingKind::kSpace;
  }
  return law;
}

}  // namespace

double Predictor::Slowdown(const Tenant& tenant, DeviceTypeId id, std::span<const Tenant> others,
                           const ForeignLoad& foreign) const {
  const cluster::DeviceType& type = types_[id.index()];
  return SlowdownBy(LawOf(type, UsualMode(type)), tenant, id, others, foreign);
}

double Predictor::SlowdownIn(cluster::ShareMode mode, const Tenant& tenant, DeviceTypeId id,
                             std::span<const Tenant> others, const ForeignLoad& foreign) const {
  const cluster::DeviceType& type = types_[id.index()];
  if (mode == cluster::ShareMode::kExclusive) {
    // The device is the tenant's; strangers do not ask.
    return SlowdownBy(LawOf(type, UsualMode(type)), tenant, id, {}, foreign);
  }
  return SlowdownBy(LawOf(type, mode), tenant, id, others, foreign);
}

double Predictor::SlowdownBy(const SharingLaw& given, const Tenant& tenant, DeviceTypeId id,
                             std::span<const Tenant> others, const ForeignLoad& foreign) const {
  SharingLaw law = given;
  law.cache_penalty = options_.cache_penalty;
  const auto demand = [&](const Tenant& t) {
    const Estimate* e = Find(t.model, id, t.batch);
    // A tenant that cannot be estimated is taken to want everything.
    return e == nullptr ? Demand{1, 0, 0, 1, 1, ToFraction(t.share)} : DemandOf(*e, t.share);
  };
  std::vector<Demand> beside;
  beside.reserve(others.size());
  for (const Tenant& other : others) beside.push_back(demand(other));
  return latency::Slowdown(demand(tenant), beside, foreign, law);
}

}  // namespace hase::latency

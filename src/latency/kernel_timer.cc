#include "latency/kernel_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace hase::latency {
namespace {

constexpr double kOwnErrorCorrelation =
    0.15;  // between unlike kernels of one model, measured on CPU

// Distinct kernels of a model, and for each kernel which of them it is. Kernels of one geometry
// whose memory is half an octave warmer or colder are not the same.
struct Distinct {
  std::vector<const model::Kernel*> kernels;
  std::vector<size_t> of;
  std::vector<double> count;
};

Distinct FindDistinct(const model::ModelKernels& model) {
  Distinct d;
  std::unordered_map<std::string, size_t> index;
  d.of.reserve(model.kernels.size());
  for (const auto& kernel : model.kernels) {
    std::string key = model::GeometryKey(kernel);
    for (const int64_t reuse : {kernel.reuse.activations, kernel.reuse.output}) {
      if (reuse > 0) key += static_cast<char>('A' + std::lround(2 * std::log2(reuse)) % 128);
    }
    const auto [it, fresh] = index.emplace(std::move(key), d.kernels.size());
    if (fresh) {
      d.kernels.push_back(&kernel);
      d.count.push_back(0);
    }
    d.of.push_back(it->second);
    d.count[it->second] += 1;
  }
  return d;
}

// Adds one distinct kernel, run `count` times, to the sums. The time is divided by what bounds it.
struct Bound {
  double compute_us = 0, memory_us = 0, launch_us = 0;
};

class Totals {
 public:
  explicit Totals(KernelTimes* out) : out_(*out) {}
  void Add(double us, double count, const Bound& bound, double sm, double own_sigma,
           double shared_sigma) {
    const double total = us * count;
    const double launch = std::min(bound.launch_us, us) * count;
    out_.sum_us += total;
    out_.launch_part += launch;
    (bound.compute_us > bound.memory_us ? out_.compute_part : out_.bandwidth_part) +=
        total - launch;
    out_.sm_demand += total * sm;
    out_.dram_demand += std::min(bound.memory_us * count, total);
    const double error = total * own_sigma;
    own_squares_ += error * error;
    own_sum_ += error;
    out_.shared_sigma += total * shared_sigma;
  }
  void Finish() {
    const double sum = std::max(out_.sum_us, 1e-9);
    for (double* part : {&out_.launch_part, &out_.compute_part, &out_.bandwidth_part,
                         &out_.sm_demand, &out_.dram_demand, &out_.shared_sigma}) {
      *part /= sum;
    }
    const double variance =
        (1 - kOwnErrorCorrelation) * own_squares_ + kOwnErrorCorrelation * own_sum_ * own_sum_;
    out_.own_sigma = std::sqrt(variance) / sum;
    out_.measured_part /= sum;
  }

 private:
  KernelTimes& out_;
  double own_squares_ = 0, own_sum_ = 0;
};

double CpuPeak(const cluster::DeviceType& type) {
  const double gflops = std::max({type.bench.gemm_large, type.bench.conv3x3, type.bench.conv1x1});
  if (gflops > 0) return gflops * 1e3;  // flops per microsecond
  return type.spec.peak_tflops[0] > 0 ? type.spec.peak_tflops[0] * 1e6 : 50e3;
}

double CpuBandwidth(const cluster::DeviceType& type) {
  if (type.bench.copy_large > 0) return type.bench.copy_large * 1e3;  // bytes per microsecond
  return type.spec.bandwidth_gb_s > 0 ? type.spec.bandwidth_gb_s * 1e3 : 10e3;
}

}  // namespace

double ThreadBlocks(const model::Kernel& k) {
  if (k.m > 0) {
    return std::ceil(static_cast<double>(k.m) / 128) * std::ceil(static_cast<double>(k.n) / 64) *
           static_cast<double>(std::max<int64_t>(k.gemm_batch, 1));
  }
  return std::ceil(static_cast<double>(model::ElementCount(k.output).value_or(1)) / 1024);
}

KernelTimes TimeOnCpu(const model::ModelKernels& model, const CpuKernelModel& cpu,
                      const cluster::DeviceType& type, std::span<const std::string> without) {
  KernelTimes out;
  Totals totals(&out);
  const Distinct distinct = FindDistinct(model);
  const double peak = CpuPeak(type), bandwidth = CpuBandwidth(type);
  const WorkingSet set = WorkingSetOf(model.kernels);
  std::vector<KernelEstimate> estimates;
  for (size_t i = 0; i < distinct.kernels.size(); ++i) {
    const model::Kernel& kernel = *distinct.kernels[i];
    const CpuKernelTime t = cpu.Predict(kernel, set, without);
    const Bound bound{static_cast<double>(kernel.flops) / peak,
                      static_cast<double>(kernel.bytes()) / bandwidth, 1.5};
    totals.Add(t.latency_us, distinct.count[i], bound, 1, t.sigma, 0);
    if (t.measured) out.measured_part += t.latency_us * distinct.count[i];
    out.extrapolated |= t.extrapolated;
    estimates.push_back(
        {kernel.name, kernel.op_class, t.latency_us, t.baseline_us, t.extrapolated,
         t.measured ? "measured"
                    : fmt::format("roofline × {:.2f} ({} measured here)",
                                  t.latency_us / t.baseline_us, ToString(kernel.op_class))});
  }
  totals.Finish();
  for (size_t i = 0; i < model.kernels.size(); ++i) {
    out.kernels.push_back(estimates[distinct.of[i]]);
    out.kernels.back().name = model.kernels[i].name;
  }
  return out;
}

KernelTimes TimeOnGpu(const model::ModelKernels& model, const KernelModel& trees,
                      const cluster::DeviceType& type, bool old_libraries) {
  KernelTimes out;
  Totals totals(&out);
  const Distinct distinct = FindDistinct(model);
  std::vector<KernelOutput> outputs(distinct.kernels.size());
  trees.PredictMany(distinct.kernels,
                    {.spec = &type.spec,
                     .bench = &type.bench,
                     .runtime = type.runtime,
                     .old_libraries = old_libraries},
                    outputs);
  double extrapolated_us = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const KernelOutput& t = outputs[i];
    const double sms = std::max(type.spec.sm_count, 1);
    totals.Add(t.latency_us, distinct.count[i], {t.compute_us, t.memory_us, t.launch_us},
               std::min(1.0, ThreadBlocks(*distinct.kernels[i]) / sms), t.independent_sigma,
               t.shared_sigma);
    if (t.extrapolated) extrapolated_us += t.latency_us * distinct.count[i];
  }
  totals.Finish();
  // A few small kernels of a class without training rows do not make a model's estimate a guess.
  out.extrapolated = extrapolated_us > 0.1 * out.sum_us;
  for (size_t i = 0; i < model.kernels.size(); ++i) {
    const KernelOutput& t = outputs[distinct.of[i]];
    out.kernels.push_back({model.kernels[i].name, model.kernels[i].op_class, t.latency_us,
                           t.roofline_us, t.extrapolated,
                           fmt::format("trees ({})", ToString(t.convention))});
  }
  return out;
}

}  // namespace hase::latency

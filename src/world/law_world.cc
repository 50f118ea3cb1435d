#include "world/law_world.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace hase::world {
namespace {

constexpr double kTiny = 1e-12;
constexpr double kLeastRate = 1e-3;  // nobody starves for ever

bool IsCpu(const cluster::DeviceType& type) { return type.spec.kind == cluster::DeviceKind::kCpu; }

double PeakFlops(const cluster::DeviceType& type, model::Precision precision,
                 const LawParameters& p) {
  const auto& peaks = type.spec.peak_tflops;
  const auto index = static_cast<size_t>(precision);
  const double peak = peaks[index] > 0 ? peaks[index] : peaks[0];
  const bool reduced = peaks[index] > 0 && index > 0;
  double sustained = p.sustained_default;
  for (const auto& [name, factor] : p.sustained) {
    if (type.spec.name.starts_with(name)) sustained = factor;
  }
  if (IsCpu(type)) sustained = 1;
  return peak * 1e12 * sustained * (reduced ? p.reduced_precision_efficiency : 1.0);
}

// Part of the multiprocessors that the kernel's blocks keep busy, tail wave included.
double Fill(const model::Kernel& kernel, int sm_count, double tile) {
  double outputs = 1;
  for (const int64_t d : kernel.output) outputs *= static_cast<double>(std::max<int64_t>(1, d));
  const double blocks = std::ceil(outputs / tile), sms = std::max(1, sm_count);
  return blocks / (std::ceil(blocks / sms) * sms);
}

}  // namespace

void ShareMaxMin(std::span<const Demand> demands, std::span<const double> caps,
                 const LawParameters& p, std::span<double> rates) {
  const size_t n = demands.size();
  // Neighbours push each other out of L2: more DRAM traffic per unit of progress.
  std::vector<std::array<double, 3>> use(n);
  for (size_t i = 0; i < n; ++i) {
    double neighbours = 0;
    for (size_t j = 0; j < n; ++j) neighbours += j == i ? 0 : demands[j].l2;
    use[i] = {demands[i].sm, demands[i].dram * (1 + p.l2_eviction * neighbours), demands[i].l2};
  }
  std::vector<bool> stopped(n);
  double level = 0;
  std::array<double, 3> left = {1, 1, 1};
  for (size_t round = 0; round <= n + 3; ++round) {
    // How far can all who still rise go?
    double step = 2;
    std::array<double, 3> slope = {};
    for (size_t i = 0; i < n; ++i) {
      if (stopped[i]) continue;
      step = std::min(step, caps[i] - level);
      for (size_t r = 0; r < 3; ++r) slope[r] += use[i][r];
    }
    for (size_t r = 0; r < 3; ++r) {
      if (slope[r] > kTiny) step = std::min(step, std::max(0.0, left[r]) / slope[r]);
    }
    if (step > 1.5) break;  // all have stopped
    step = std::max(0.0, step);
    level += step;
    for (size_t r = 0; r < 3; ++r) left[r] -= slope[r] * step;
    for (size_t i = 0; i < n; ++i) {
      if (stopped[i]) continue;
      bool stop = level >= caps[i] - kTiny;
      for (size_t r = 0; r < 3; ++r) stop = stop || (left[r] <= 1e-9 && use[i][r] > kTiny);
      if (!stop) continue;
      stopped[i] = true;
      rates[i] = std::min(level, caps[i]);
    }
  }
  double activity = 0;
  for (size_t i = 0; i < n; ++i) {
    activity += rates[i] * (p.power_sm * use[i][0] + p.power_dram * use[i][1]);
  }
  // The clock's fall is counted against being alone, whose own fall is part of the solo time.
  for (size_t i = 0; i < n; ++i) {
    const double own = p.power_sm * demands[i].sm + p.power_dram * demands[i].dram;
    const double fall = p.power_slope * (std::max(activity, p.power_knee) - p.power_knee);
    const double own_fall = p.power_slope * (std::max(own, p.power_knee) - p.power_knee);
    rates[i] *= std::min(1.0, (1 - fall) / (1 - own_fall));
    rates[i] = std::clamp(rates[i], kLeastRate, 1.0);
  }
}

LawWorld::LawWorld(const cluster::Cluster& cluster, KernelTable kernels, LawParameters parameters,
                   uint64_t seed, CardDraws draws)
    : cluster_(cluster), kernels_(std::move(kernels)), p_(std::move(parameters)), seed_(seed) {
  Rng rng = Rng(seed).Split("w3 cards");
  for (const auto& device : cluster.devices) {
    if (draws == CardDraws::kByName) rng = Rng(seed).Split("w3 card " + device.name);
    const double draw = std::clamp(p_.card_sigma * rng.Normal(), -p_.card_bound, p_.card_bound);
    card_.push_back(std::exp(draw));
  }
}

LawWorld::Work LawWorld::Compute(const model::ModelKernels& list,
                                 const cluster::DeviceType& type) const {
  Work work;
  const bool cpu = IsCpu(type);
  const double bandwidth = std::max(1.0, type.spec.bandwidth_gb_s) * 1e9 * p_.bandwidth_efficiency;
  const double gap = (cpu ? p_.gap_cpu_us : p_.gap_gpu_us) * 1e-6;
  const auto l2 = static_cast<double>(type.spec.l2.value());
  double total = 0, sm_s = 0, dram_bytes = 0, l2_bytes = 0, compute_s = 0;
  for (const auto& k : list.kernels) {
    const double fill = cpu ? 1.0 : Fill(k, type.spec.sm_count, p_.tile);
    const double efficiency = p_.efficiency[static_cast<size_t>(k.op_class)];
    const double peak = PeakFlops(type, k.precision, p_);
    const double c = peak > 0 ? static_cast<double>(k.flops) / (peak * efficiency * fill) : 0;
    const auto activations = static_cast<double>(k.bytes_activations + k.bytes_written);
    const double hit = activations <= l2 ? p_.l2_hit : 0;
    const double bytes = static_cast<double>(k.bytes_weights) + activations * (1 - hit);
    const double d = bytes / bandwidth;
    const double both = std::pow(std::pow(c, p_.overlap) + std::pow(d, p_.overlap), 1 / p_.overlap);
    const double t = std::max(both, gap);
    total += t;
    sm_s += fill * std::min(t, both);
    compute_s += both > 0 ? std::min(both, t) * (c >= d ? 1 : 0) : 0;
    dram_bytes += bytes;
    l2_bytes += static_cast<double>(k.bytes());
  }
  if (total <= 0) return work;
  const double copies = static_cast<double>((list.memory.input + list.memory.output).value()) /
                        (std::max(1.0, type.spec.pcie_gb_s) * 0.8e9);
  const double batch_s = total + (cpu ? 0 : copies);
  work.runs = true;
  work.solo.batch_s = batch_s / (cpu ? ToFraction(type.quota) : 1.0);
  work.demand.sm = std::min(1.0, sm_s / batch_s);
  work.demand.dram = std::min(1.0, dram_bytes / bandwidth / batch_s);
  work.demand.l2 = std::min(1.0, l2_bytes / (bandwidth * p_.l2_ratio) / batch_s);
  work.demand.compute_part = std::min(1.0, compute_s / batch_s);
  const auto weights = static_cast<double>(list.memory.weights.value());
  work.solo.load_s = (cpu ? p_.load_cpu_base_s : p_.load_base_s) + weights / (p_.disk_gb_s * 1e9) +
                     static_cast<double>(list.kernels.size()) * p_.load_kernel_ms * 1e-3;
  const double context = (cpu ? p_.cpu_context_mib : p_.context_mib) * 1048576.0;
  const double run =
      weights + static_cast<double>(list.memory.peak_activations.value()) * p_.activation_factor +
      static_cast<double>(list.memory.largest_workspace.value()) * p_.workspace_part;
  const double peak_bytes = context + std::max(run, weights * (cpu ? p_.load_weight_copies : 1.0));
  work.solo.memory = Bytes(std::llround(peak_bytes));
  return work;
}

const LawWorld::Work& LawWorld::WorkOf(ModelId model, DeviceTypeId type, int64_t batch) const {
  const auto [at, added] = works_.try_emplace({model, type, batch});
  if (added) {
    const auto& device = cluster_.types[type.index()];
    const auto* kernels = kernels_(model, device.runtime, batch);
    if (kernels) at->second = Compute(*kernels, device);
  }
  return at->second;
}

std::optional<Solo> LawWorld::Alone(ModelId model, DeviceId device, int64_t batch) const {
  const Work& work = WorkOf(model, cluster_.devices[device.index()].type, batch);
  if (!work.runs) return std::nullopt;
  Solo solo = work.solo;
  solo.batch_s *= card_[device.index()];
  return solo;
}

void LawWorld::Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                         std::span<double> factors) const {
  using cluster::ShareMode;
  const auto type = cluster_.devices[device.index()].type;
  const size_t n = occupants.size();
  std::vector<Demand> demands(n);
  std::vector<double> caps(n), rates(n, 1.0);
  const bool turns = n > 1 && occupants[0].mode == ShareMode::kTimeSlice;
  for (size_t i = 0; i < n; ++i) {
    const auto& o = occupants[i];
    demands[i] = WorkOf(o.model, type, o.batch).demand;
    const double share = ToFraction(o.share);
    caps[i] = 1;
    if (o.mode == ShareMode::kCpuQuota) caps[i] = share;
    if (o.mode == ShareMode::kMps && share < demands[i].sm) {
      const double stretch = std::pow(demands[i].sm / share, p_.share_exponent);
      caps[i] = 1 / (1 + demands[i].compute_part * (stretch - 1));
    }
  }
  if (turns) {
    for (size_t i = 0; i < n; ++i) factors[i] = static_cast<double>(n) * (1 + p_.switch_cost);
    return;
  }
  ShareMaxMin(demands, caps, p_, rates);
  for (size_t i = 0; i < n; ++i) factors[i] = std::max(1.0, 1 / rates[i]);
}

double LawWorld::LeastUse(ModelId model, DeviceId device, int64_t batch, int mix) const {
  const auto& d = WorkOf(model, cluster_.devices[device.index()].type, batch).demand;
  const double uses[] = {d.sm, d.dram, d.l2, (d.sm + d.dram) / 2};
  return uses[std::clamp(mix, 0, 3)];
}

// Loading is the bus's and the host's work; only a CPU's share slows it.
double LawWorld::LoadFactor(DeviceId device, double factor) const {
  return IsCpu(cluster_.types[cluster_.devices[device.index()].type.index()]) ? factor : 1;
}

double LawWorld::RunNoise(JobId job, uint64_t run) const {
  Rng rng(seed_ ^ (uint64_t{job.index()} * 0x9e3779b97f4a7c15ULL) ^ (run << 1));
  return std::exp(p_.run_sigma * rng.Normal());
}

}  // namespace hase::world

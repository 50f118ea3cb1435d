#include "latency/slowdown.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hase::latency {
namespace {

constexpr double kLeastShare = 1e-3;

// Factors on compute and bandwidth time that the own share alone brings.
struct ShareFactors {
  double compute = 1, bandwidth = 1;
  double Total(const Demand& d) const {
    return d.compute_part * compute + d.bandwidth_part * bandwidth + d.launch_part;
  }
};

ShareFactors SpaceShare(const Demand& d, const SharingLaw& law) {
  const double share = std::clamp(d.share, kLeastShare, 1.0);
  const double processors = std::max(1.0, std::floor(share * law.sm_count + 1e-9));
  const double part = processors / std::max(law.sm_count, 1);
  return {std::max(1.0, std::clamp(d.sm, kLeastShare, 1.0) / part),
          std::max(1.0, law.saturation_share / share)};
}

double MigSlowdown(const Demand& d, const SharingLaw& law) {
  const double share = std::clamp(d.share, kLeastShare, 1.0);
  ShareFactors own = SpaceShare(d, law);
  own.bandwidth = std::max(1.0, std::clamp(d.dram, kLeastShare, 1.0) / share);
  return own.Total(d);
}

double SpaceSlowdown(const Demand& tenant, std::span<const Demand> others,
                     const ForeignLoad& foreign, const SharingLaw& law) {
  const ShareFactors own = SpaceShare(tenant, law);
  double sm = foreign.valid ? std::max(foreign.sm, 0.0) : 0;
  double dram = foreign.valid ? std::max(foreign.dram, 0.0) : 0;
  for (const Demand& other : others) {
    const ShareFactors its = SpaceShare(other, law);
    sm += std::clamp(other.sm, 0.0, 1.0) / its.compute;
    dram += std::clamp(other.dram, 0.0, 1.0) / its.Total(other);
  }
  const double own_sm = std::clamp(tenant.sm, 0.0, 1.0) / own.compute;
  const double own_dram = std::clamp(tenant.dram, 0.0, 1.0) / own.bandwidth;
  const double compute = own.compute * std::max(1.0, own_sm + sm);
  const double bandwidth =
      own.bandwidth * std::max(1.0, own_dram + dram) * (1 + law.cache_penalty * dram);
  return tenant.compute_part * compute + tenant.bandwidth_part * bandwidth + tenant.launch_part;
}

// How much of what a probe feels of others' memory traffic, work that streams as much feels
// (docs/predictor-cpu.md says how fitted).
constexpr double kStreamFelt = 0.5;

double CpuSlowdown(const Demand& tenant, std::span<const Demand> others, const ForeignLoad& foreign,
                   const SharingLaw& law) {
  const double quota = std::clamp(law.quota, kLeastShare, 1.0);
  const double want = quota * std::clamp(tenant.share, kLeastShare, 1.0);
  std::vector<double> inside;
  double dram = foreign.valid ? std::max(foreign.dram, 0.0) : 0;
  for (const Demand& other : others) {
    inside.push_back(quota * std::clamp(other.share, kLeastShare, 1.0));
    dram += std::clamp(other.dram, 0.0, 1.0) * inside.back();
  }
  // The partition's quota and the strangers bind first, then its tenants share what is left.
  const double strangers = foreign.valid ? std::max(foreign.sm, 0.0) : 0;
  const double rate = FairPart(want, inside, std::min(quota, 1 / (1 + strangers)));
  const double own = std::clamp(tenant.dram, 0.0, 1.0);
  double memory = 1 + tenant.bandwidth_part * law.cache_penalty * dram +
                  tenant.bandwidth_part * (std::max(1.0, own + dram) - 1);
  if (foreign.valid) {
    const double felt = kStreamFelt * std::max(foreign.stream_stretch, 0.0);
    memory += (1 - own) * std::max(foreign.compute_stretch, 0.0) + own * felt;
  }
  return std::max(1.0, quota / rate) * memory;
}

}  // namespace

Demand DemandOf(const Estimate& e, MilliShare share) {
  Demand d{e.compute_part, e.bandwidth_part, e.launch_part,
           e.sm_demand,    e.dram_demand,    ToFraction(share)};
  const double sum = d.compute_part + d.bandwidth_part + d.launch_part;
  if (sum <= 0) return {1, 0, 0, 1, 0, d.share};
  d.compute_part /= sum;
  d.bandwidth_part /= sum;
  d.launch_part /= sum;
  return d;
}

double FairPart(double want, std::span<const double> other_wants, double capacity) {
  // Water level: raise it until the capacity is used up; who wants less gets what it wants.
  std::vector<double> wants(other_wants.begin(), other_wants.end());
  std::ranges::sort(wants);
  double left = capacity;
  size_t users = wants.size() + 1;
  for (const double other : wants) {
    const double level = left / static_cast<double>(users);
    if (other >= level) return std::min(want, level);
    // Below the level: served whole, unless the asker itself is served before it.
    if (want <= other) return want;
    left -= other;
    --users;
  }
  return std::min(want, left);
}

double Slowdown(const Demand& tenant, std::span<const Demand> others, const ForeignLoad& foreign,
                const SharingLaw& law) {
  double s = 1;
  switch (law.kind) {
    case SharingKind::kSpace:
      s = SpaceSlowdown(tenant, others, foreign, law);
      break;
    case SharingKind::kMig:
      s = MigSlowdown(tenant, law);
      break;
    case SharingKind::kCpu:
      s = CpuSlowdown(tenant, others, foreign, law);
      break;
    case SharingKind::kTimeSlice: {
      // Slices go round among those that have work; a share below one is its part of the rounds.
      std::vector<double> wants;
      for (const Demand& other : others) wants.push_back(std::clamp(other.share, kLeastShare, 1.0));
      double strangers = foreign.valid ? std::max(foreign.sm, 0.0) : 0;
      for (; strangers > 0; strangers -= 1) wants.push_back(std::min(strangers, 1.0));
      s = 1 / FairPart(std::clamp(tenant.share, kLeastShare, 1.0), wants, 1.0);
      break;
    }
  }
  return std::max(1.0, s);
}

}  // namespace hase::latency

#include "latency/service_latency.h"

#include <algorithm>
#include <cmath>

namespace hase::latency {
namespace {

using cluster::ShareMode;

// Of a time slice, lost to the switch of contexts.
constexpr double kSwitchCost = 0.05;

// SMs given, as a fraction of the device, whole SMs only.
double SmFraction(int sm_count, const ShareGrant& grant) {
  const double share = ToFraction(grant.share);
  if (grant.mode == ShareMode::kMig) return MigSlices(grant.share) / 7.0;
  if (sm_count <= 0) return share;
  return std::max(1.0, std::floor(share * sm_count + 1e-9)) / sm_count;
}

double ComputeFactor(const ServiceTerms& terms, const ShareLaw& law, double fraction) {
  return std::pow(std::max(1.0, terms.parallelism / fraction), law.scaling);
}

double DramFactor(const ShareLaw& law, double fraction, const ShareGrant& grant) {
  if (grant.mode == ShareMode::kMig) return 1 / MigMemoryFraction(MigSlices(grant.share));
  return std::max(1.0, law.saturation / fraction);
}

double Combine(double a, double b, double k) {
  const double longer = std::max(a, b), shorter = std::min(a, b);
  if (longer <= 0) return 0;
  return longer * std::pow(1 + std::pow(shorter / longer, k), 1 / k);
}

struct DeviceWork {
  double compute_s, dram_s;
  double sum() const { return compute_s + dram_s; }
};

DeviceWork WorkAt(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                  const ShareGrant& grant) {
  const double fraction = SmFraction(sm_count, grant);
  return {(terms.compute_s + terms.fixed_s) * ComputeFactor(terms, law, fraction),
          terms.dram_s * DramFactor(law, fraction, grant)};
}

bool Divided(const ShareGrant& grant) {
  return grant.mode == ShareMode::kMps || grant.mode == ShareMode::kMig;
}

}  // namespace

double ShareCloseness(double log_share, int processes, const ProfiledNear& point) {
  // How far apart profile points inform each other: e-folds of the share, processes.
  constexpr double kShareReach = 0.8, kProcessReach = 1.0;
  const double s = (log_share - point.log_share) / kShareReach;
  const double p = (processes - point.processes) / kProcessReach;
  return std::exp(-0.5 * (s * s + p * p));
}

double MigMemoryFraction(int slices) {
  switch (slices) {
    case 1:
      return 1 / 8.0;
    case 2:
      return 2 / 8.0;
    case 3:
    case 4:
      return 4 / 8.0;
    default:
      return 1;
  }
}

int MigSlices(MilliShare share) {
  const double sevenths = ToFraction(share) * 7;
  int best = 1;
  for (const int slices : {1, 2, 3, 4, 7})
    if (std::abs(slices - sevenths) < std::abs(best - sevenths)) best = slices;
  return best;
}

ServiceTerms TermsOf(const Estimate& estimate, const ShareLaw& law) {
  const double parts =
      std::max(1e-9, estimate.compute_part + estimate.bandwidth_part + estimate.launch_part);
  ServiceTerms terms;
  terms.compute_s = estimate.latency_s * estimate.compute_part / parts;
  terms.dram_s = estimate.latency_s * estimate.bandwidth_part / parts;
  const double device = terms.compute_s + terms.dram_s;
  // The launch term that makes the combination at the whole device the estimate itself.
  const double ratio = std::min(1.0, device / std::max(1e-12, estimate.latency_s));
  terms.launch_s = estimate.latency_s *
                   std::pow(std::max(0.0, 1 - std::pow(ratio, law.overlap)), 1 / law.overlap);
  // SM time that compute-bound kernels do not explain is still work the share can cut, so the
  // fraction filled is taken over the compute term alone.
  const double busy = estimate.sm_demand * estimate.latency_s;
  terms.parallelism = terms.compute_s > 0 ? std::clamp(busy / terms.compute_s, 0.05, 1.0) : 1.0;
  return terms;
}

TermSeconds RunSecondsByTerm(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                             const ShareGrant& grant) {
  ShareGrant whole = grant;
  double stretch = 1;
  if (!terms.near.empty()) {
    const double log_share = std::log(std::max(1e-3, ToFraction(grant.share)));
    double beyond = 0;
    for (const ProfiledNear& point : terms.near)
      beyond += point.weight * ShareCloseness(log_share, grant.processes, point);
    stretch = std::exp(beyond);
  }
  if (grant.mode == ShareMode::kCpuQuota) {  // the host is under the quota as well
    stretch /= std::max(1e-3, ToFraction(grant.share));
    whole.share = kWholeDevice;
  } else if (!Divided(grant)) {
    whole.share = kWholeDevice;
  }
  const DeviceWork work = WorkAt(terms, law, sm_count, whole);
  const double alone = Combine(terms.launch_s, work.sum(), law.overlap) + terms.serial_s;
  double total = alone;
  if (grant.processes > 1)  // device work queues up behind that of the siblings
    total = Combine(alone, grant.processes * work.sum() * (1 + law.crowding), law.overlap);
  // What the combination leaves beside the device's own work is launch (and waiting for siblings).
  TermSeconds result;
  result.serial_s = terms.serial_s * stretch;
  const double device = std::min(work.sum(), total - terms.serial_s);
  const double scale = work.sum() > 0 ? device / work.sum() : 0;
  result.compute_s = work.compute_s * scale * stretch;
  result.dram_s = work.dram_s * scale * stretch;
  result.launch_s = (total - terms.serial_s - device) * stretch;
  return result;
}

double RunSeconds(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                  const ShareGrant& grant) {
  const TermSeconds t = RunSecondsByTerm(terms, law, sm_count, grant);
  return t.compute_s + t.dram_s + t.launch_s + t.serial_s;
}

double DramDemand(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                  const ShareGrant& grant) {
  const double run = RunSeconds(terms, law, sm_count, grant);
  return run > 0 ? std::min(1.0, grant.processes * terms.traffic * terms.dram_s / run) : 0;
}

double SmUse(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
             const ShareGrant& grant) {
  const TermSeconds t = RunSecondsByTerm(terms, law, sm_count, grant);
  const double run = t.compute_s + t.dram_s + t.launch_s + t.serial_s;
  const double fraction = Divided(grant) ? SmFraction(sm_count, grant) : 1;
  return run > 0 ? std::min(fraction, terms.parallelism) * t.compute_s / run : 0;
}

Neighbour ResidentOf(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                     const ShareGrant& grant) {
  Neighbour resident;
  resident.dram_demand = DramDemand(terms, law, sm_count, grant);
  const double within = Divided(grant) ? SmFraction(sm_count, grant) : 1;
  resident.dram_peak = std::clamp(1 / DramFactor(law, within, grant), resident.dram_demand, 1.0);
  resident.sm_use = SmUse(terms, law, sm_count, grant);
  return resident;
}

double BandwidthFactor(const Neighbour& resident, const Neighbourhood& n, double burst) {
  const double own = std::min(1.0, burst * resident.dram_demand);
  const double over = resident.dram_peak + burst * std::max(0.0, n.drawn) - 1;
  const double sd = burst * std::sqrt(std::max(0.0, n.variance));
  if (sd <= 1e-9 || std::abs(over) >= 5 * sd) return 1 + own * std::max(0.0, over);
  const double z = over / sd;  // others taken as normal
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
  return 1 + own * (over * 0.5 * std::erfc(-z / std::sqrt(2.0)) + sd * density);
}

double Interference(const Neighbour& own, const ShareLaw& law, ShareMode mode,
                    const Neighbourhood& n) {
  if (mode == ShareMode::kMig || mode == ShareMode::kExclusive) return 1;
  const double busy = std::max(0.0, n.busy), drawn = std::max(0.0, n.drawn);
  if (mode == ShareMode::kTimeSlice) return 1 + busy * (1 + kSwitchCost);
  const double rest =
      1 + law.crowding * drawn + law.company * busy + law.heat * std::max(0.0, n.sms);
  if (mode == ShareMode::kCpuQuota) return rest;
  return BandwidthFactor(own, n, law.burst) * rest;
}

double Interference(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                    const ShareGrant& grant, std::span<const Neighbour> neighbours) {
  Neighbourhood sum;
  for (const Neighbour& n : neighbours) sum.Add(n);
  return Interference(ResidentOf(terms, law, sm_count, grant), law, grant.mode, sum);
}

}  // namespace hase::latency

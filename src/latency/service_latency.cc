#include "latency/service_latency.h"

#include <algorithm>
#include <cmath>

namespace hase::latency {
namespace {

using cluster::ShareMode;

// Time-sliced residents never wait longer than this many times their own run.
constexpr double kWorstTimeSlice = 50;

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
  if (grant.mode == ShareMode::kCpuQuota) {  // the host is under the quota as well
    stretch = 1 / std::max(1e-3, ToFraction(grant.share));
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
  return run > 0 ? std::min(1.0, grant.processes * terms.dram_s / run) : 0;
}

double Interference(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                    const ShareGrant& grant, std::span<const Neighbour> neighbours) {
  if (grant.mode == ShareMode::kMig || grant.mode == ShareMode::kExclusive || neighbours.empty())
    return 1;
  double busy = 0, drawn = 0, variance = 0;
  for (const Neighbour& n : neighbours) {
    busy += n.busy;
    drawn += n.busy * n.dram_demand;
    variance += n.busy * (1 - n.busy) * n.dram_demand * n.dram_demand;
  }
  if (grant.mode == ShareMode::kTimeSlice || grant.mode == ShareMode::kCpuQuota) {
    if (grant.mode == ShareMode::kCpuQuota) return 1 + law.crowding * drawn;
    return busy >= 1 - 1 / kWorstTimeSlice ? kWorstTimeSlice : 1 / (1 - busy);
  }
  const double own = DramDemand(terms, law, sm_count, grant);
  // E[(own + others - 1)+], others normal: how far the bandwidth is asked for beyond what there is.
  const double over = own + drawn - 1, sd = std::sqrt(variance);
  double excess = std::max(0.0, over);
  if (sd > 1e-9) {
    const double z = over / sd;
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    excess = over * 0.5 * std::erfc(-z / std::sqrt(2.0)) + sd * density;
  }
  return 1 + own * excess + law.crowding * drawn;
}

}  // namespace hase::latency

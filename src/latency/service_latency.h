// Latency of one batch on a share of a device: t(model, device, batch, share, mode | co-residents).
//
// A batch consists of terms that a share touches differently (docs/architecture.md, "Shares"):
//   compute    grows as the SMs given, floor(share · SMs), fall below those the kernels can fill
//   DRAM       MPS keeps the bandwidth until the SMs left cannot saturate it (p_sat); MIG cuts it
//              with the slice's memory slices
//   launch     the host's part: does not depend on the share, and overlaps with device work
//   serial     per-item work of one process that no larger share speeds up
//   CPU quota  scales every term by 1 / share: the host runs under the quota too
// Launch and device work combine as (launch^k + device^k)^(1/k): k = 1 adds them, a large k lets
// the longer one hide the other. k and the terms' scales are corrected by a few profile points.
//
// Times are seconds on one device type; a card's speed factor multiplies them outside. Left out:
// clock and power (they enter through the speed factor), PCIe contention between co-residents.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "cluster/device.h"
#include "latency/estimate.h"

namespace hase::latency {

// What profile points say beyond the law, near them: the logarithm of a factor on RunSeconds is
// Σ weight · closeness of share and processes, where this batch's closeness is in the weights.
struct ProfiledNear {
  double log_share = 0;
  int processes = 1;
  double weight = 0;
};
double ShareCloseness(double log_share, int processes, const ProfiledNear& point);

// What one batch asks of the whole device, alone.
struct ServiceTerms {
  double compute_s = 0;
  double fixed_s = 0;  // compute work that does not grow with the batch
  double dram_s = 0;
  double launch_s = 0;
  double serial_s = 0;
  double parallelism = 1;  // fraction of the SMs that the compute terms can fill
  double traffic = 1;      // DRAM traffic that counters saw / that the terms say
  std::vector<ProfiledNear> near = {};
};

// How the terms combine. The defaults hold without any profile point.
struct ShareLaw {
  double overlap = 2;        // k above
  double saturation = 0.35;  // p_sat: SMs that draw the whole DRAM bandwidth (MPS)
  double scaling = 1;        // compute ∝ (SMs given)^-scaling
  // Slow-down per unit of DRAM bandwidth in use by others, below saturation too (L2). From the
  // published median slow-down of V100 pairs, 1.09 at about half the bandwidth (iGniter).
  double crowding = 0.15;
  // Slow-down per busy neighbour (its launches disturb ours) and per fraction of the SMs that
  // neighbours keep busy (clock and power). Measured in co-runs; without any, the pairs' median.
  double company = 0.01, heat = 0.02;
  // Traffic as co-runs show it, over what the counter and the terms say.
  double burst = 1;
  double doubt = 0.2;  // relative error of (interference - 1), one standard deviation
};

struct ShareGrant {
  MilliShare share = kWholeDevice;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  int processes = 1;  // same-model processes inside this one share, all busy
};

// A resident as the law sees it: what it draws while busy, and how often it is.
struct Neighbour {
  double dram_demand = 0;  // fraction of the device's bandwidth, on average while busy
  double busy = 1;         // probability of being busy
  double sm_use = 0;       // fraction of the SMs it keeps busy while it runs
  double dram_peak = 0;    // of the bandwidth, while a memory-bound kernel runs: all its SMs draw
};

// The DRAM bandwidth that a MIG instance of `slices` compute slices gets (A100, H100: 7 compute and
// 8 memory slices; source: NVIDIA MIG user guide, profile tables).
double MigMemoryFraction(int slices);
// Compute slices of a MIG share: the nearest of {1, 2, 3, 4, 7} sevenths.
int MigSlices(MilliShare share);

// From an estimate of one batch: terms whose combination at the whole device is its latency.
ServiceTerms TermsOf(const Estimate& estimate, const ShareLaw& law);

// Seconds of one batch with the share alone on the device; `sm_count` 0 = not quantised.
double RunSeconds(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                  const ShareGrant& grant);
// The part of RunSeconds by term, in the order compute (with fixed), dram, launch (what is not
// hidden), serial: they sum to RunSeconds.
struct TermSeconds {
  double compute_s = 0, dram_s = 0, launch_s = 0, serial_s = 0;
};
TermSeconds RunSecondsByTerm(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                             const ShareGrant& grant);
// Fraction of the device's DRAM bandwidth drawn while such a batch runs.
double DramDemand(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                  const ShareGrant& grant);

// A resident that runs such batches without pause.
Neighbour ResidentOf(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                     const ShareGrant& grant);

// Fraction of the device's SMs kept busy while such a batch runs, its DRAM phases left out.
double SmUse(const ServiceTerms& terms, const ShareLaw& law, int sm_count, const ShareGrant& grant);

// Factor >= 1 on RunSeconds from co-residents under MPS: expectation over who is busy, of the
// bandwidth factor times what L2, launches and the clock cost.
// MIG and exclusive: 1. Time-slice: as many times longer as residents are busy at once.
struct Neighbourhood {  // sums over neighbours, so that one can be taken out again
  double busy = 0, drawn = 0, variance = 0, sms = 0;
  void Add(const Neighbour& n, double sign = 1) {
    busy += sign * n.busy;
    sms += sign * n.busy * n.sm_use;
    drawn += sign * n.busy * n.dram_demand;
    variance += sign * n.busy * n.dram_demand * (n.dram_peak - n.busy * n.dram_demand);
  }
};
// Factor from bandwidth asked for beyond what there is, alone. Kernels are memory-bound or not, and
// those of different residents meet by chance: each of the others draws its peak for
// busy · demand / peak of the time, nothing else. In our own memory-bound kernels, `own demand` of
// the time at least, we find E[(own peak + others - 1)+] too little: 1 + own demand · that, all
// traffic being `burst` times what is said.
double BandwidthFactor(const Neighbour& own, const Neighbourhood& neighbours, double burst);
double Interference(const Neighbour& own, const ShareLaw& law, cluster::ShareMode mode,
                    const Neighbourhood& neighbours);
double Interference(const ServiceTerms& terms, const ShareLaw& law, int sm_count,
                    const ShareGrant& grant, std::span<const Neighbour> neighbours);

}  // namespace hase::latency

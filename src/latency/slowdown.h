// Slow-down law: how much longer a tenant takes than alone on the whole device, given its share,
// the other tenants, and strangers seen by counters. Pure arithmetic on demand vectors.
//
// Space-shared GPU (MPS): compute time grows as the tenant's processors shrink below what it can
// fill, in whole processors; memory time only once the share is too small to saturate DRAM (p_sat);
// launches do not depend on the share. Beyond that, everybody's demand for compute and for
// bandwidth is added up, and what exceeds the device is shared in proportion to demand; bandwidth
// time also grows with the others' traffic through the shared cache.
// Time-sliced GPU (no MPS): a slice for every busy tenant.
// MIG instance: processors in whole numbers, bandwidth and cache in proportion to the share; what
// the other instances do is not felt.
// CPU: a share is a part of the cores' time, so every term scales by 1/share. A partition beside
// strangers of C times its weight gets 1 / (1 + C) of the cores, or its quota if that is less;
// within, tenants that ask for more than there is get max–min fair parts (what the kernel's fair
// scheduler gives equal weights). Memory traffic of others slows the part that waits for memory.
//
// Properties (tested): >= 1; grows with every demand of others; never grows with the own share; 1
// for a whole device alone.
// Sources: the form of the share term is InSS's; max–min fairness: the Completely Fair Scheduler.
#pragma once

#include <span>

#include "base/units.h"
#include "latency/estimate.h"
#include "latency/estimator.h"

namespace hase::latency {

// What one tenant asks of the device while it runs alone on all of it.
struct Demand {
  double compute_part = 1, bandwidth_part = 0, launch_part = 0;  // of its time; sum 1
  double sm = 1;    // part of the processors it can fill
  double dram = 0;  // part of the bandwidth it uses
  double share = 1;
};
Demand DemandOf(const Estimate& estimate, MilliShare share);

enum class SharingKind : uint8_t { kSpace, kTimeSlice, kCpu, kMig };

struct SharingLaw {
  SharingKind kind = SharingKind::kSpace;
  int sm_count = 1;               // space: shares are whole processors
  double saturation_share = 0.4;  // space: the share that saturates DRAM
  double cache_penalty = 0.15;    // added to bandwidth time per unit of others' DRAM use
  double quota = 1;               // CPU: part of the cores' time that the partition may use
};

// `foreign.sm` on a CPU counts runnable strangers per core (cpu_load.h) and may exceed 1; on a GPU
// it is the SM active fraction. An invalid reading is ignored here: callers widen intervals
// instead.
double Slowdown(const Demand& tenant, std::span<const Demand> others, const ForeignLoad& foreign,
                const SharingLaw& law);

// Max–min fair part of a resource of size `capacity` for the first of `wants` (each wants at most
// its value).
double FairPart(double want, std::span<const double> other_wants, double capacity);

}  // namespace hase::latency

// What the live counters of a CPU say a job of ours would meet on its cores: the snapshot of the
// cpu source turned into a ForeignLoad for the slow-down law (slowdown.h).
//
// Time. A stranger that is runnable a part r of the time, on the job's core, makes the job's time
// 1 + r of what it was: both get half while it wants to run, and what it has to do it does later (a
// closed loop; an always busy stranger gives the fair scheduler's half). The scheduler divides a
// core between groups first (a session's autogroup, a container): a group's weight is spread over
// cores by where its threads run, and a job of n cores brings 1 / n of its weight to each.
// Strangers that may run anywhere are set, the busiest first, where the least weight is, the job's
// own counted: the load balancer will move them out of its way if it can.
// A job on n cores waits at the end of each parallel section for the slowest: its speed lies
// between the sum of the cores' speeds (work handed out in small pieces) and n times the slowest.
//
// Memory and the core itself. What the probe of the job's own cores takes beyond what it takes at
// rest (QuietProbe). Arithmetic counts only beyond a quarter more, as a busy hyper-thread makes it:
// below, the clock's own wandering reads alike.
//
// Left out: weights other than the default, realtime classes, and what a job started together with
// this one will do.
#pragma once

#include <string>
#include <vector>

#include "cluster/telemetry/snapshot.h"
#include "latency/estimator.h"

namespace hase::latency {

// The probe's readings with nobody else at work; 0 = unknown.
struct QuietProbe {
  double compute_ns = 0, stream_ns = 0, latency_ns = 0;
};
// The least of each reading over the given cores: what rest looks like, if any of them had it.
QuietProbe QuietestOf(const cluster::telemetry::Snapshot& snapshot, const QuietProbe& before = {});

// How many times the job's own weight strangers want on each of `cores`. `machine`: how many cores
// there are.
std::vector<double> Competition(const std::vector<cluster::telemetry::Stranger>& strangers,
                                const std::vector<int>& cores, int machine);

// Not valid if the snapshot covers no interval. Without probe readings or their value at rest the
// memory's part is taken as undisturbed.
ForeignLoad CpuForeignLoad(const cluster::telemetry::Snapshot& snapshot,
                           const std::vector<int>& cores, const QuietProbe& quiet);

}  // namespace hase::latency

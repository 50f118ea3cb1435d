// PlanningView: everything a Policy may know when it decides, as plain values and borrowed tables.
// The engine keeps it up to date incrementally; a policy never asks the outside world anything.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "cluster/device.h"
#include "latency/estimator.h"
#include "workload/job.h"

namespace hase::latency {
class ServiceModel;
}

namespace hase::placement {

// The last Reserve decided for a job, as the engine remembers it: a policy that starts anew (after
// a restart, from a snapshot) takes it over and so decides as the old one would have.
struct Promise {
  std::vector<DeviceId> devices;  // empty: none was made
  Nanos from;                     // promised not to start later than this …
  double probability = 0;         // … with this probability
  Nanos planned_start;            // where the policy saw it last
  // Mean and standard deviation of the start as they were when it was first promised.
  Nanos expected, deviation;
};

struct PromiseOutcome {
  double error = 0;  // (start − expected) / deviation
  bool kept = false;
};

constexpr size_t kPromiseOutcomes = 256;
// A start this much later than promised still counts as kept: rounding of sums of nanoseconds, and
// decisions that follow at once on another.
constexpr Nanos kPromiseTolerance = Nanos(1'000'000);
// A job starts for the first time: how its promise came out joins the newest kPromiseOutcomes.
inline void NoteOutcome(const Promise& promise, Nanos start,
                        std::vector<PromiseOutcome>& outcomes) {
  if (promise.devices.empty() || promise.deviation <= Nanos(0)) return;
  if (outcomes.size() >= kPromiseOutcomes) outcomes.erase(outcomes.begin());
  outcomes.push_back({ToSeconds(start - promise.expected) / ToSeconds(promise.deviation),
                      start <= promise.from + kPromiseTolerance});
}

struct QueuedJob {
  JobId id;
  ModelId model;
  int64_t batch = 1;
  int64_t inputs_left = 0;  // not done and not handed out
  Nanos arrival;
  int priority = 0;
  std::optional<Nanos> deadline;
  OwnerId owner;
  int max_parallel = 1;
  int running_parts = 0;  // Starts of this job now running
  int gang = 1;
  workload::Sharing sharing = workload::Sharing::kAny;
  std::vector<DeviceTypeId> device_types;  // admissible; empty = any
  int host_cores_milli = 0;
  Bytes host_memory;
  double memory_factor = 1;  // > 1 after an out-of-memory: asks for more than predicted
  Promise promise;
};

// Two rules that the engine's ledger and every policy must share. A gang's slots split the inputs
// evenly and run in lockstep; each slot holds the whole model.
inline double BatchesPerSlot(int64_t inputs, int64_t batch, int gang) {
  const int64_t per_slot = (inputs + gang - 1) / gang;
  return static_cast<double>((per_slot + batch - 1) / batch);
}
inline Bytes MemoryNeed(const QueuedJob& job, const latency::Estimate& estimate) {
  return Scale(estimate.memory(), job.memory_factor);
}

struct Resident {
  JobId job;
  OwnerId owner;
  int priority = 0;
  workload::Sharing sharing = workload::Sharing::kAny;
  latency::Tenant tenant;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  Bytes memory;  // counted by the ledger
  Nanos started;
  // What is left, in solo whole-device time of this device (speed factor included). nullopt: a
  // service, which does not end. As of `left_at`: the engine refreshes it when the device changes
  // (residents, progress, speed); in between, work goes on at the rate 1 / slowdown.
  std::optional<latency::Spread> left;
  Nanos left_at;
  bool overrunning = false;  // past its predicted p99
};

struct DeviceState {
  DeviceId id;
  DeviceTypeId type;
  NodeId node;
  bool up = true;
  Bytes memory_total;               // usable: driver reserve and foreign use taken out
  double speed_factor = 1;          // observed / predicted time: 1.1 = ten per cent slower
  std::vector<Resident> residents;  // in order of start
  latency::ForeignLoad foreign;
  std::vector<cluster::ShareMode> modes;
  std::vector<ModelId> warm;  // models a start here would not have to load again
  Bytes memory_used() const {
    Bytes sum;
    for (const auto& r : residents) sum += r.memory;
    return sum;
  }
  MilliShare share_used() const {
    MilliShare sum;
    for (const auto& r : residents) sum += r.tenant.share;
    return sum;
  }
};

struct NodeState {
  int cores_milli_free = 0;  // ignored where total is 0
  int cores_milli_total = 0;
  Bytes memory_free, memory_total;
};

struct PlanningView {
  Nanos now;
  std::span<const QueuedJob> queue;      // in order of arrival
  std::span<const DeviceState> devices;  // devices[i].id.index() == i
  std::span<const NodeState> nodes;
  std::span<const cluster::DeviceType> types;
  const latency::Estimator* estimator = nullptr;
  // What changed since the last Decide(): policies with indexes update only these.
  std::span<const DeviceId> changed_devices;
  bool everything_changed = true;
  // How promises made under uncertainty came out, oldest first: the engine keeps the last few.
  std::span<const PromiseOutcome> promise_outcomes;
};

struct ServiceDemand {
  ServiceId id;
  ModelId model;
  double rate_rps = 0;
  double slo_ms = 0;
  double slo_percentile = 0.99;
  int64_t max_batch = 64;
};

struct ServiceView {
  Nanos now;
  std::span<const ServiceDemand> services;
  std::span<const DeviceState> devices;
  std::span<const cluster::DeviceType> types;
  std::span<const double> price_per_hour;  // by device
  const latency::Estimator* estimator = nullptr;
  // A batch takes its full time whatever is in it (static shapes, padded).
  bool padded = false;
  // Shares and profile points; nullptr: the policy makes its own from the estimator.
  const latency::ServiceModel* model = nullptr;

  // 1 where none is given: devices are then counted.
  double PriceOf(size_t device) const {
    return device < price_per_hour.size() && price_per_hour[device] > 0 ? price_per_hour[device]
                                                                        : 1;
  }
};

}  // namespace hase::placement

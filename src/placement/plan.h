// Plan: what a Policy decides, as a delta — jobs not named keep their last decision — and why, in
// numbers. Every decision carries a Record that `hase explain` prints.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "cluster/device.h"

namespace hase::placement {

struct Slot {
  DeviceId device;
  MilliShare share = kWholeDevice;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  bool operator==(const Slot&) const = default;
};

// One candidate that was looked at, with its score.
struct Candidate {
  DeviceId device;
  MilliShare share = kWholeDevice;
  Nanos start, finish;   // predicted, absolute; finish is the median
  Nanos inflicted;       // delay on residents, weighted by priority
  std::string bound_by;  // what limits it: "memory", "busy until 12.3 s", "compute" …
};

struct Record {
  std::string why;                    // one line
  std::vector<Candidate> candidates;  // best first, at most a few
  Nanos predicted_finish;             // of the choice; 0 if it waits without one
};

struct Start {
  JobId job;
  std::vector<Slot> slots;  // one; gang = k slots
  int64_t batch = 1;
  int64_t inputs = 0;  // a cut job = several Starts whose inputs sum to what is left
  Record record;
};
struct Reserve {
  JobId job;
  std::vector<Slot> slots;
  Nanos from;              // promised not to start later than this …
  double probability = 0;  // … with this probability
  Nanos planned_start;     // predicted (mean); a promise is renewed when this device changes
  // Mean and standard deviation of the start when it was first promised: how promises come out is
  // measured in these (PlanningView::promise_outcomes).
  Nanos expected, deviation;
  Record record;
};
struct Wait {
  JobId job;
  Record record;
};
struct Reject {
  JobId job;
  std::string why;
  std::string nearest_feasible;  // what would fit, empty if nothing would
};
using Decision = std::variant<Start, Reserve, Wait, Reject>;

struct Plan {
  std::vector<Decision> decisions;
  // When the policy wants to be asked again even if nothing happens.
  std::optional<Nanos> wake_at;
};

struct Instance {
  ServiceId service;
  DeviceId device;
  MilliShare share = kWholeDevice;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  int64_t batch = 1;
  Nanos max_wait;       // longest wait for a batch to fill
  double rate_rps = 0;  // the part of the service's rate routed to it
  int processes = 1;    // workers of this service inside the share, all taking from its queue
  int slot = 0;         // instances of one slot of a device divide its share among them
};
struct ServiceReject {
  ServiceId service;
  std::string why, nearest_feasible;
};
struct ServicePlan {
  std::vector<Instance> instances;
  std::vector<ServiceReject> rejected;
};

}  // namespace hase::placement

// Partition: some cores of this machine and a part of their time, made to behave like a device of
// its own. A process inside runs on exactly these cores and gets `quota` of each 5 ms of them (a
// long period would let a small model finish inside one slice and see no quota at all).
//
// Enforced by control groups where they are writable; else the worker limits itself by sleeping
// (1 - q) / q of each batch's busy time (kDutyCycle), which holds on average but not within a batch
// and not while the model loads. `limiter` says which, and every report repeats it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "execution/worker/cgroup.h"

namespace hase::execution {

enum class Limiter : uint8_t { kNone, kCgroupV1, kCgroupV2, kDutyCycle };
std::string_view ToString(Limiter limiter);  // "none", "cgroup-v1", "cgroup-v2", "duty-cycle"

struct PartitionSpec {
  std::vector<int> cores = {};      // empty = all cores of this machine
  MilliShare quota = kWholeDevice;  // of the time of these cores, 1..1000
  bool without_cgroups = false;     // take the fall-back even where control groups work
};

class Partition {
 public:
  // Fails only on a spec that this machine cannot have (no such core, quota out of range).
  static Result<Partition> Make(const PartitionSpec& spec);
  // A part for one process, inside this one (which must outlive it): `share` of its time and at
  // most `memory` (0 = no limit; see limits_memory()).
  Result<Partition> Divide(MilliShare share, Bytes memory) const;

  const std::vector<int>& cores() const { return cores_; }
  MilliShare quota() const { return quota_; }
  Limiter limiter() const { return limiter_; }
  // The part of its time the worker must take itself: 1000 unless limiter() is kDutyCycle.
  MilliShare duty() const { return limiter_ == Limiter::kDutyCycle ? quota_ : kWholeDevice; }
  // Whether a limit was asked for and the kernel holds it; if not, the worker sets RLIMIT_AS.
  bool limits_memory() const { return group_ && group_->limits_memory(); }
  // Whether the kernel killed a process in here for memory.
  bool ran_out_of_memory() const { return group_ && group_->oom_kills() > 0; }
  std::string Describe() const;  // "core 1, 60 % (cgroup-v1, 3.0 of each 5 ms)"

  // Puts the calling process inside. Async-signal-safe: meant for a child between fork and exec.
  // False: could not enter (errno says why).
  bool Enter() const;

 private:
  std::vector<int> cores_;
  MilliShare quota_ = kWholeDevice;
  Limiter limiter_ = Limiter::kNone;
  std::optional<Cgroup> group_;
};

int OnlineCores();

}  // namespace hase::execution

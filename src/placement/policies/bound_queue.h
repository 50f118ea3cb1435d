// Dispatch at arrival: each job is bound to a device when it comes and waits in that device's own
// queue, first in, first out. Round-robin and least-loaded are this with different choices.
#pragma once

#include <vector>

#include "placement/policy.h"
#include "placement/rival.h"

namespace hase::placement {

class BoundQueue : public Policy {
 public:
  explicit BoundQueue(bool sharing) : sharing_(sharing) {}
  Plan Decide(const PlanningView& view) final;

 protected:
  // `gang` different devices that are up and admit the job; empty if there are not enough.
  virtual std::vector<DeviceId> Choose(const PlanningView& view, const QueuedJob& job) = 0;
  bool IsBound(JobId job) const {
    return job.index() < bound_.size() && !bound_[job.index()].empty();
  }
  const std::vector<DeviceId>& DevicesOf(JobId job) const { return bound_[job.index()]; }

 private:
  void Bind(const PlanningView& view, const QueuedJob& job, Plan& plan);

  bool sharing_;
  std::vector<std::vector<DeviceId>> bound_;  // by job
  PlanBook book_;
  std::vector<uint64_t> blocked_;  // by device: the call in which its queue's head had to wait
  uint64_t call_ = 0;
};

}  // namespace hase::placement

// List scheduling by minimum completion time: jobs in some order, each planned where it is
// predicted to finish first behind what is planned already; those whose start is now are started.
// mct, lpt-mct, spt-mct and edf differ in the order only; gavel-lp also narrows the types.
#pragma once

#include <span>
#include <vector>

#include "placement/frontier.h"
#include "placement/policy.h"
#include "placement/rival.h"

namespace hase::placement {

class ListPolicy : public Policy {
 public:
  explicit ListPolicy(bool sharing) : sharing_(sharing), frontier_(sharing) {
    table_.SetSharing(sharing);
  }
  Plan Decide(const PlanningView& view) final;

 protected:
  // Smaller is planned first; equal keys keep the order of arrival.
  virtual double OrderKey(const PlanningView& view, JobTable& table, const QueuedJob& job) = 0;
  // Before a plan is made of these jobs (not called when no device is free).
  virtual void Prepare(const PlanningView&, JobTable&, const Frontier&,
                       std::span<const QueuedJob* const>) {}
  // The types the job may take; a policy may leave some out.
  virtual std::span<const JobOnType> Row(const PlanningView& view, JobTable& table,
                                         const QueuedJob& job) {
    return table.Get(view, job);
  }
  bool sharing() const { return sharing_; }

 private:
  void Place(const PlanningView& view, const QueuedJob& job, Plan& plan);

  bool sharing_;
  JobTable table_;
  Frontier frontier_;
  NewJobs new_jobs_;
  PlanBook book_;
  std::vector<Spot> spots_;
};

}  // namespace hase::placement

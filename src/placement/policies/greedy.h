// Greedy use of open devices: jobs in some order, each started at once on one of the devices open
// to it; nothing is planned ahead. fifo, random, sjf and the Kubernetes scorers are this.
#pragma once

#include <string>
#include <vector>

#include "placement/policy.h"
#include "placement/rival.h"

namespace hase::placement {

class Greedy : public Policy {
 public:
  // strict: the first job that cannot start blocks those behind it.
  Greedy(bool sharing, bool strict) : sharing_(sharing), strict_(strict) {}
  Plan Decide(const PlanningView& view) final;

 protected:
  // Smaller is tried first; equal keys keep the order of arrival. Not used where strict.
  virtual double OrderKey(const PlanningView&, const QueuedJob&) { return 0; }
  // Smaller is better; equal scores go to the lower id.
  virtual double Score(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                       const Slot& slot) = 0;
  virtual bool FirstWillDo() const { return false; }  // the scores are all equal
  virtual std::string Why() const = 0;

 private:
  bool Try(const PlanningView& view, const QueuedJob& job, Plan& plan);
  std::vector<const QueuedJob*> Order(const PlanningView& view);

  bool sharing_, strict_;
  NewJobs new_jobs_;
  OpenDevices open_;
  PlanBook book_;
};

}  // namespace hase::placement

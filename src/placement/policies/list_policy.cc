#include "placement/policies/list_policy.h"

#include <algorithm>

namespace hase::placement {
namespace {

std::vector<Candidate> CandidatesOf(const PlanningView& view, const std::vector<Spot>& spots) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < std::min<size_t>(spots.size(), 3); ++i) {
    const Spot& s = spots[i];
    candidates.push_back({s.device, kWholeDevice, s.start, s.finish, Nanos(0),
                          s.start > view.now ? "busy" : "compute"});
  }
  return candidates;
}

}  // namespace

void ListPolicy::Place(const PlanningView& view, const QueuedJob& job, Plan& plan) {
  const auto row = Row(view, table_, job);
  if (job.gang > 1) {
    spots_ = frontier_.FindGang(view, job, row);
    if (spots_.empty()) return;
    frontier_.TakeGang(spots_, spots_.front().finish);
  } else {
    const auto admits = [&](DeviceId id, Nanos start) {
      return start > view.now ||
             FitsNow(view, book_, job, PlainSlot(view.devices[id.index()], sharing_)) ==
                 Obstacle::kNone;
    };
    frontier_.Find(view, row, 1, true, admits, spots_);
    if (spots_.empty()) return;
    frontier_.Take(spots_.front(), spots_.front().finish);
  }
  if (spots_.front().start > view.now) return;
  std::vector<Slot> slots;
  for (int k = 0; k < job.gang; ++k) {
    const DeviceState& device = view.devices[spots_[static_cast<size_t>(k)].device.index()];
    slots.push_back(PlainSlot(device, sharing_));
    if (FitsNow(view, book_, job, slots.back()) != Obstacle::kNone) return;
  }
  if (job.gang > 1 && !GangFitsHosts(view, book_, job, slots)) return;
  plan.decisions.emplace_back(StartNow(view, book_, job, std::move(slots),
                                       "finishes first here, behind what is planned before it",
                                       CandidatesOf(view, spots_)));
}

Plan ListPolicy::Decide(const PlanningView& view) {
  Plan plan;
  book_.Begin(view);
  frontier_.Update(view);
  new_jobs_.RejectImpossible(view, plan);
  frontier_.Begin(view);
  if (frontier_.idle() == 0) return plan;
  std::vector<const QueuedJob*> jobs;
  jobs.reserve(view.queue.size());
  for (const QueuedJob& job : view.queue) {
    if (!new_jobs_.WasRejected(job.id)) jobs.push_back(&job);
  }
  Prepare(view, table_, frontier_, jobs);
  std::vector<std::pair<double, const QueuedJob*>> order;
  order.reserve(jobs.size());
  for (const QueuedJob* job : jobs) order.emplace_back(OrderKey(view, table_, *job), job);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, job] : order) {
    if (frontier_.idle() == 0) break;  // nobody further down can start now
    Place(view, *job, plan);
  }
  return plan;
}

}  // namespace hase::placement

#include "placement/policies/greedy.h"

#include <algorithm>

namespace hase::placement {

std::vector<const QueuedJob*> Greedy::Order(const PlanningView& view) {
  std::vector<std::pair<double, const QueuedJob*>> keyed;
  keyed.reserve(view.queue.size());
  for (const QueuedJob& job : view.queue) keyed.emplace_back(OrderKey(view, job), &job);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const QueuedJob*> order;
  order.reserve(keyed.size());
  for (const auto& [key, job] : keyed) order.push_back(job);
  return order;
}

bool Greedy::Try(const PlanningView& view, const QueuedJob& job, Plan& plan) {
  struct Scored {
    double score;
    Slot slot;
  };
  std::vector<Scored> fitting;
  const size_t gang = static_cast<size_t>(job.gang);
  const size_t enough = FirstWillDo() ? gang : SIZE_MAX;
  for (const DeviceId id : open_.Open()) {
    const Slot slot = PlainSlot(view.devices[id.index()], sharing_);
    if (FitsNow(view, book_, job, slot) != Obstacle::kNone) continue;
    fitting.push_back({Score(view, book_, job, slot), slot});
    if (fitting.size() >= enough) break;
  }
  if (fitting.size() < gang) return false;
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < std::min<size_t>(fitting.size(), 3); ++i) {
    const Slot& slot = fitting[i].slot;
    candidates.push_back({slot.device, slot.share, view.now,
                          FinishIfStarted(view, book_, job, slot), Nanos(0), "compute"});
  }
  std::vector<Slot> slots;
  for (size_t k = 0; k < gang; ++k) slots.push_back(fitting[k].slot);
  if (gang > 1 && !GangFitsHosts(view, book_, job, slots)) {
    const auto& open = open_.Open();
    const auto fits = [&](size_t i) -> std::optional<Slot> {
      const Slot slot = PlainSlot(view.devices[open[i].index()], sharing_);
      if (FitsNow(view, book_, job, slot) != Obstacle::kNone) return {};
      return slot;
    };
    slots = SpreadOverHosts(gang, open.size(), fits, [&](std::span<const Slot> members) {
      return GangFitsHosts(view, book_, job, members);
    });
    if (slots.empty()) return false;
  }
  plan.decisions.emplace_back(
      StartNow(view, book_, job, std::move(slots), Why(), std::move(candidates)));
  return true;
}

Plan Greedy::Decide(const PlanningView& view) {
  Plan plan;
  book_.Begin(view);
  open_.Update(view, sharing_);
  new_jobs_.RejectImpossible(view, plan);
  if (open_.Open().empty()) return plan;
  if (strict_) {
    for (const QueuedJob& job : view.queue) {
      if (!new_jobs_.WasRejected(job.id) && !Try(view, job, plan)) break;
    }
  } else {
    for (const QueuedJob* job : Order(view)) {
      if (!new_jobs_.WasRejected(job->id)) Try(view, *job, plan);
    }
  }
  return plan;
}

}  // namespace hase::placement

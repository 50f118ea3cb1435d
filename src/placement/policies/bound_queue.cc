#include "placement/policies/bound_queue.h"

#include <fmt/format.h>

#include <algorithm>

namespace hase::placement {

void BoundQueue::Bind(const PlanningView& view, const QueuedJob& job, Plan& plan) {
  auto& devices = bound_[job.id.index()];
  const auto is_up = [&](DeviceId d) { return view.devices[d.index()].up; };
  if (!devices.empty() && std::ranges::all_of(devices, is_up)) return;
  if (devices.empty()) {
    if (auto reject = RejectIfImpossible(view, job)) {
      plan.decisions.emplace_back(std::move(*reject));
      return;
    }
  }
  devices = Choose(view, job);
  if (devices.empty()) {
    plan.decisions.emplace_back(WaitFor(job, "every device that could hold it is down"));
  }
}

Plan BoundQueue::Decide(const PlanningView& view) {
  Plan plan;
  book_.Begin(view);
  blocked_.resize(std::max(blocked_.size(), view.devices.size()));
  ++call_;
  for (const QueuedJob& job : view.queue) {
    if (job.id.index() >= bound_.size()) bound_.resize(job.id.index() + 1);
    const bool known = IsBound(job.id);
    Bind(view, job, plan);
    const auto& devices = bound_[job.id.index()];
    if (devices.empty()) continue;

    std::vector<Slot> slots;
    bool free = true;
    for (const DeviceId id : devices) {
      slots.push_back(PlainSlot(view.devices[id.index()], sharing_));
      free = free && blocked_[id.index()] != call_ &&
             FitsNow(view, book_, job, slots.back()) == Obstacle::kNone;
    }
    if (free) {
      plan.decisions.emplace_back(StartNow(view, book_, job, std::move(slots),
                                           "its device is free and it is first in its queue"));
      continue;
    }
    for (const DeviceId id : devices) blocked_[id.index()] = call_;
    if (!known) {
      Wait wait =
          WaitFor(job, fmt::format("bound to device {} at arrival; waits for its turn there",
                                   devices.front().index()));
      wait.record.candidates.push_back(
          {devices.front(), slots.front().share, view.now, Nanos(0), Nanos(0), "queue order"});
      plan.decisions.emplace_back(std::move(wait));
    }
  }
  return plan;
}

}  // namespace hase::placement

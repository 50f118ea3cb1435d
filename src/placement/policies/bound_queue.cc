#include "placement/policies/bound_queue.h"

#include <fmt/format.h>

#include <algorithm>

namespace hase::placement {
namespace {

// Whether the hosts of these devices, when nothing else runs there, hold a gang's members.
bool EmptyHostsHold(const PlanningView& view, const QueuedJob& job,
                    std::span<const DeviceId> devices) {
  for (const DeviceId id : devices) {
    const NodeId node = view.devices[id.index()].node;
    NodeState empty = view.nodes[node.index()];
    empty.cores_milli_free = empty.cores_milli_total;
    empty.memory_free = empty.memory_total;
    const auto members = std::ranges::count_if(
        devices, [&](DeviceId other) { return view.devices[other.index()].node == node; });
    if (!HostFitsMembers(job, empty, static_cast<int>(members))) return false;
  }
  return true;
}

}  // namespace

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
  if (job.gang > 1 && !devices.empty() && !EmptyHostsHold(view, job, devices)) {
    const size_t first = devices.front().index(), count = view.devices.size();
    const auto next = [&](size_t i) -> std::optional<DeviceId> {
      const auto& device = view.devices[(first + i) % count];
      if (!device.up || EverFits(view, job, device) != Obstacle::kNone) return {};
      return device.id;
    };
    devices = SpreadOverHosts(
        static_cast<size_t>(job.gang), count, next,
        [&](std::span<const DeviceId> members) { return EmptyHostsHold(view, job, members); });
  }
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
    if (free && job.gang > 1) free = GangFitsHosts(view, book_, job, slots);
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

// What the baseline policies share: noticing new jobs, the slot a plain policy asks for, idle
// devices, and a Start with its record. Baselines differ only in order and choice of device.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "placement/admission.h"
#include "placement/forecast.h"
#include "placement/plan.h"
#include "placement/view.h"

namespace hase::placement {

// Jobs of the queue that no earlier Decide() has seen, in order of arrival. Costs the new ones only
// where they stand at the queue's end.
class NewJobs {
 public:
  const std::vector<const QueuedJob*>& Update(const PlanningView& view);
  // Update(), and those that can never run are rejected: the queue still holds them in this call.
  void RejectImpossible(const PlanningView& view, Plan& plan);
  bool WasRejected(JobId job) const { return std::ranges::find(rejected_, job) != rejected_.end(); }

 private:
  std::vector<bool> seen_;  // by job
  std::vector<const QueuedJob*> fresh_;
  std::vector<JobId> rejected_;
};

// The slot a policy without shares of its own takes on a device: all of it, or with `sharing` one
// of two equal shares where the device can enforce shares (what static replicas give).
Slot PlainSlot(const DeviceState& device, bool sharing);

// Devices on which a PlainSlot may be free; kept by the changes the view reports.
class OpenDevices {
 public:
  void Update(const PlanningView& view, bool sharing);
  // Ids in increasing order; may hold devices that have filled up since within this plan.
  const std::vector<DeviceId>& Open();

 private:
  std::vector<bool> open_;
  std::vector<DeviceId> list_;
  bool stale_ = true;
};

// Predicted finish of a start now in `slot`, its slow-down by share and company counted.
Nanos FinishIfStarted(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                      const Slot& slot);

// A start of the whole job now in these slots, booked, with its record.
Start StartNow(const PlanningView& view, PlanBook& book, const QueuedJob& job,
               std::vector<Slot> slots, std::string why, std::vector<Candidate> candidates = {});

// The hosts of these slots hold all members of the gang at once.
bool GangFitsHosts(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                   std::span<const Slot> slots);
Wait WaitFor(const QueuedJob& job, std::string why);

// A gang whose first choice sits on hosts without room for all its members: of `at(0)`, `at(1)`, …
// each that there is and that the hosts hold with those before it; `gang` of them, or none.
template <typename At, typename Hold>
auto SpreadOverHosts(size_t gang, size_t count, At&& at, Hold&& hold) {
  std::vector<typename std::invoke_result_t<At, size_t>::value_type> members;
  for (size_t i = 0; i < count && members.size() < gang; ++i) {
    const auto next = at(i);
    if (!next) continue;
    members.push_back(*next);
    if (!hold(members)) members.pop_back();
  }
  if (members.size() < gang) members.clear();
  return members;
}

}  // namespace hase::placement

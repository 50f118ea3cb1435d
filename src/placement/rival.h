// What the baseline policies share: noticing new jobs, the slot a plain policy asks for, idle
// devices, and a Start with its record. Baselines differ only in order and choice of device.
#pragma once

#include <span>
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

 private:
  std::vector<bool> seen_;  // by job
  std::vector<const QueuedJob*> fresh_;
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

}  // namespace hase::placement

#include "placement/rival.h"

#include <algorithm>

namespace hase::placement {

const std::vector<const QueuedJob*>& NewJobs::Update(const PlanningView& view) {
  fresh_.clear();
  for (auto it = view.queue.rbegin(); it != view.queue.rend(); ++it) {
    const uint32_t index = it->id.index();
    if (index >= seen_.size()) seen_.resize(std::max<size_t>(index + 1, seen_.size() * 2), false);
    if (seen_[index]) break;
    seen_[index] = true;
    fresh_.push_back(&*it);
  }
  std::reverse(fresh_.begin(), fresh_.end());
  return fresh_;
}

void NewJobs::RejectImpossible(const PlanningView& view, Plan& plan) {
  rejected_.clear();
  for (const QueuedJob* job : Update(view)) {
    auto reject = RejectIfImpossible(view, *job);
    if (!reject) continue;
    rejected_.push_back(job->id);
    plan.decisions.emplace_back(std::move(*reject));
  }
}

Slot PlainSlot(const DeviceState& device, bool sharing) {
  if (sharing) {
    for (const cluster::ShareMode mode : device.modes) {
      if (mode == cluster::ShareMode::kExclusive) continue;
      return {device.id, MilliShare(kWholeDevice.value() / 2), mode};
    }
  }
  return {device.id, kWholeDevice, cluster::ShareMode::kExclusive};
}

void OpenDevices::Update(const PlanningView& view, bool sharing) {
  const auto refresh = [&](const DeviceState& device) {
    const Slot slot = PlainSlot(device, sharing);
    const bool open = device.up && (device.residents.empty() ||
                                    (slot.mode != cluster::ShareMode::kExclusive &&
                                     device.share_used() + slot.share <= kWholeDevice));
    if (open_[device.id.index()] != open) stale_ = true;
    open_[device.id.index()] = open;
  };
  if (view.everything_changed || open_.size() != view.devices.size()) {
    open_.assign(view.devices.size(), false);
    stale_ = true;
    for (const DeviceState& device : view.devices) refresh(device);
  } else {
    for (const DeviceId id : view.changed_devices) refresh(view.devices[id.index()]);
  }
}

const std::vector<DeviceId>& OpenDevices::Open() {
  if (stale_) {
    list_.clear();
    for (uint32_t i = 0; i < open_.size(); ++i) {
      if (open_[i]) list_.push_back(DeviceId(i));
    }
    stale_ = false;
  }
  return list_;
}

Nanos FinishIfStarted(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                      const Slot& slot) {
  const DeviceState& device = view.devices[slot.device.index()];
  const auto solo = SoloTime(view, job, job.inputs_left, device);
  if (!solo) return Nanos::Max();
  std::vector<latency::Tenant> others;
  for (const Resident& r : device.residents) others.push_back(r.tenant);
  for (const Resident& r : book.Added(device.id)) others.push_back(r.tenant);
  const double slow = view.estimator->Slowdown({job.model, job.batch, slot.share}, device.type,
                                               others, device.foreign);
  return view.now + FromSeconds(solo->mean_s * slow);
}

Start StartNow(const PlanningView& view, PlanBook& book, const QueuedJob& job,
               std::vector<Slot> slots, std::string why, std::vector<Candidate> candidates) {
  Start start;
  start.job = job.id;
  start.batch = job.batch;
  start.inputs = job.inputs_left;
  start.record.why = std::move(why);
  start.record.predicted_finish = view.now;
  for (const Slot& slot : slots) {
    const Nanos finish = FinishIfStarted(view, book, job, slot);
    start.record.predicted_finish = std::max(start.record.predicted_finish, finish);
    if (candidates.empty()) {
      candidates.push_back({slot.device, slot.share, view.now, finish, Nanos(0), "compute"});
    }
  }
  for (const Slot& slot : slots) {
    const auto memory = MemoryOn(view, job, view.devices[slot.device.index()].type);
    book.Add(job, slot, memory.value_or(Bytes(0)));
  }
  start.record.candidates = std::move(candidates);
  start.slots = std::move(slots);
  return start;
}

bool GangFitsHosts(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                   std::span<const Slot> slots) {
  for (const Slot& slot : slots) {
    const NodeId node = view.devices[slot.device.index()].node;
    const auto members = std::ranges::count_if(
        slots, [&](const Slot& other) { return view.devices[other.device.index()].node == node; });
    if (!HostFitsMembers(job, book.Free(node), static_cast<int>(members))) return false;
  }
  return true;
}

Wait WaitFor(const QueuedJob& job, std::string why) {
  Wait wait;
  wait.job = job.id;
  wait.record.why = std::move(why);
  return wait;
}

}  // namespace hase::placement

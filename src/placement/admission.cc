#include "placement/admission.h"

#include <fmt/format.h>

#include <algorithm>

namespace hase::placement {
namespace {

double Gib(Bytes bytes) { return static_cast<double>(bytes.value()) / (1 << 30); }

bool TypeAllowed(const QueuedJob& job, DeviceTypeId type) {
  return job.device_types.empty() || std::find(job.device_types.begin(), job.device_types.end(),
                                               type) != job.device_types.end();
}

Obstacle JoinsResidents(std::span<const Resident> residents, const QueuedJob& job,
                        const Slot& slot) {
  for (const Resident& r : residents) {
    if (slot.mode == cluster::ShareMode::kExclusive || r.mode == cluster::ShareMode::kExclusive) {
      return Obstacle::kBusy;
    }
    if (r.mode != slot.mode) return Obstacle::kMode;
    if (!MayShare(job.owner, job.sharing, r.owner, r.sharing)) return Obstacle::kSharing;
  }
  return Obstacle::kNone;
}

// The largest halved batch with which the job would fit some admissible device, as text.
std::string NearestFeasible(const PlanningView& view, const QueuedJob& job) {
  for (int64_t batch = job.batch / 2; batch >= 1; batch /= 2) {
    QueuedJob smaller = job;
    smaller.batch = batch;
    const bool fits = std::ranges::any_of(view.devices, [&](const DeviceState& d) {
      return EverFits(view, smaller, d) == Obstacle::kNone;
    });
    if (fits) return fmt::format("batch {} would fit", batch);
  }
  return "";
}

}  // namespace

std::string_view ToString(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone:
      return "nothing";
    case Obstacle::kDown:
      return "device is down";
    case Obstacle::kDeviceType:
      return "device type";
    case Obstacle::kNoEstimate:
      return "no estimate";
    case Obstacle::kMemory:
      return "memory";
    case Obstacle::kBusy:
      return "busy";
    case Obstacle::kShare:
      return "share";
    case Obstacle::kMode:
      return "sharing mode";
    case Obstacle::kSharing:
      return "sharing constraint";
    case Obstacle::kHost:
      return "host cores or memory";
  }
  return "?";
}

bool MayShare(OwnerId owner_a, workload::Sharing a, OwnerId owner_b, workload::Sharing b) {
  const auto allows = [&](workload::Sharing s) {
    return s == workload::Sharing::kAny ||
           (s == workload::Sharing::kSameOwner && owner_a == owner_b);
  };
  return allows(a) && allows(b);
}

bool HostFits(const QueuedJob& job, const NodeState& node) {
  if (job.host_cores_milli > 0 && node.cores_milli_total > 0 &&
      job.host_cores_milli > node.cores_milli_free) {
    return false;
  }
  return !(job.host_memory > Bytes(0) && node.memory_total > Bytes(0) &&
           job.host_memory > node.memory_free);
}

bool HostFitsMembers(const QueuedJob& job, const NodeState& node, int members) {
  NodeState each = node;  // what is free for one member
  each.cores_milli_free /= members;
  each.memory_free = Bytes(node.memory_free.value() / members);
  return HostFits(job, each);
}

void PlanBook::Begin(const PlanningView& view) {
  view_ = &view;
  ++epoch_;
  entries_.resize(std::max(entries_.size(), view.devices.size()));
  nodes_.resize(std::max(nodes_.size(), view.nodes.size()));
}

void PlanBook::Add(const QueuedJob& job, const Slot& slot, Bytes memory) {
  Entry& entry = entries_[slot.device.index()];
  if (entry.epoch != epoch_) {
    entry.epoch = epoch_;
    entry.residents.clear();
    entry.share = MilliShare(0);
    entry.memory = Bytes(0);
  }
  Resident resident;
  resident.job = job.id;
  resident.owner = job.owner;
  resident.priority = job.priority;
  resident.sharing = job.sharing;
  resident.tenant = {job.model, job.batch, slot.share};
  resident.mode = slot.mode;
  resident.memory = memory;
  resident.started = view_->now;
  entry.residents.push_back(resident);
  entry.share += slot.share;
  entry.memory += memory;

  const NodeId node = view_->devices[slot.device.index()].node;
  if (node.index() >= nodes_.size()) return;
  NodeEntry& host = nodes_[node.index()];
  if (host.epoch != epoch_) host = {epoch_, 0, Bytes(0)};
  host.cores_milli += job.host_cores_milli;
  host.memory += job.host_memory;
}

std::span<const Resident> PlanBook::Added(DeviceId device) const {
  const Entry& entry = entries_[device.index()];
  if (entry.epoch != epoch_) return {};
  return entry.residents;
}

NodeState PlanBook::Free(NodeId node) const {
  if (node.index() >= view_->nodes.size()) return {};
  NodeState state = view_->nodes[node.index()];
  const NodeEntry& host = nodes_[node.index()];
  if (host.epoch == epoch_) {
    state.cores_milli_free -= host.cores_milli;
    state.memory_free -= host.memory;
  }
  return state;
}

MilliShare PlanBook::ShareFree(const DeviceState& device) const {
  const Entry& entry = entries_[device.id.index()];
  const MilliShare added = entry.epoch == epoch_ ? entry.share : MilliShare(0);
  return kWholeDevice - device.share_used() - added;
}

Bytes PlanBook::MemoryFree(const DeviceState& device) const {
  const Entry& entry = entries_[device.id.index()];
  const Bytes added = entry.epoch == epoch_ ? entry.memory : Bytes(0);
  return device.memory_total - device.memory_used() - added;
}

std::optional<Bytes> MemoryOn(const PlanningView& view, const QueuedJob& job, DeviceTypeId type) {
  const latency::Estimate* estimate = view.estimator->Find(job.model, type, job.batch);
  if (!estimate) return std::nullopt;
  return MemoryNeed(job, *estimate);
}

Obstacle EverFits(const PlanningView& view, const QueuedJob& job, const DeviceState& device) {
  if (!TypeAllowed(job, device.type)) return Obstacle::kDeviceType;
  const auto memory = MemoryOn(view, job, device.type);
  if (!memory) return Obstacle::kNoEstimate;
  if (*memory > device.memory_total) return Obstacle::kMemory;
  if (device.node.index() < view.nodes.size()) {
    NodeState empty = view.nodes[device.node.index()];
    empty.cores_milli_free = empty.cores_milli_total;
    empty.memory_free = empty.memory_total;
    if (!HostFits(job, empty)) return Obstacle::kHost;
  }
  return Obstacle::kNone;
}

Obstacle FitsNow(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                 const Slot& slot) {
  const DeviceState& device = view.devices[slot.device.index()];
  if (!device.up) return Obstacle::kDown;
  if (!TypeAllowed(job, device.type)) return Obstacle::kDeviceType;
  const auto memory = MemoryOn(view, job, device.type);
  if (!memory) return Obstacle::kNoEstimate;
  if (slot.mode != cluster::ShareMode::kExclusive &&
      std::find(device.modes.begin(), device.modes.end(), slot.mode) == device.modes.end()) {
    return Obstacle::kMode;
  }
  if (const Obstacle o = JoinsResidents(device.residents, job, slot); o != Obstacle::kNone) {
    return o;
  }
  if (const Obstacle o = JoinsResidents(book.Added(device.id), job, slot); o != Obstacle::kNone) {
    return o;
  }
  if (slot.share > book.ShareFree(device)) return Obstacle::kShare;
  if (*memory > book.MemoryFree(device)) return Obstacle::kMemory;
  if (!HostFits(job, book.Free(device.node))) return Obstacle::kHost;
  return Obstacle::kNone;
}

std::optional<Reject> RejectIfImpossible(const PlanningView& view, const QueuedJob& job) {
  int fitting = 0;
  Obstacle nearest = Obstacle::kDeviceType;  // the test that got furthest
  Bytes largest, need;
  for (const DeviceState& device : view.devices) {
    const Obstacle o = EverFits(view, job, device);
    if (o == Obstacle::kNone && ++fitting >= job.gang) return std::nullopt;
    if (o > nearest) nearest = o;
    if (o == Obstacle::kMemory && device.memory_total > largest) {
      largest = device.memory_total;
      need = *MemoryOn(view, job, device.type);
    }
  }
  Reject reject{job.id, "", ""};
  if (fitting > 0) {
    reject.why = fmt::format("needs {} devices at once, {} can hold it", job.gang, fitting);
    reject.nearest_feasible = fmt::format("a gang of {} would fit", fitting);
  } else if (nearest == Obstacle::kMemory) {
    reject.why = fmt::format("needs {:.2f} GiB, the largest admissible device has {:.2f} GiB",
                             Gib(need), Gib(largest));
    reject.nearest_feasible = NearestFeasible(view, job);
  } else if (nearest == Obstacle::kNoEstimate) {
    reject.why = "no estimate for any admissible device";
    for (const DeviceState& device : view.devices) {
      if (!TypeAllowed(job, device.type)) continue;
      reject.why += ": " + view.estimator->WhyNot(job.model, device.type, job.batch);
      break;
    }
  } else {
    reject.why = fmt::format("no device can ever hold it: {}", ToString(nearest));
  }
  return reject;
}

}  // namespace hase::placement

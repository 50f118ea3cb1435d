// Admission: may this job run on this device at all, and may it start there now? One test for every
// policy, so that no baseline loses or wins by a different idea of what fits.
//
// Rules: a device of an admissible type that is up; an estimate exists; memory of all residents and
// of what this plan has started fits; shares sum to at most the whole device; exclusive means
// alone; a sharing mode must be one the device can enforce and the same for all its residents;
// `sharing` of job and residents is honoured both ways; host cores and memory of the node suffice.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "placement/plan.h"
#include "placement/view.h"

namespace hase::placement {

enum class Obstacle : uint8_t {
  kNone,
  kDown,
  kDeviceType,
  kNoEstimate,
  kMemory,
  kBusy,     // exclusive use asked for and somebody is there, or somebody there is exclusive
  kShare,    // shares would pass the whole device
  kMode,     // the device cannot enforce this mode, or its residents use another
  kSharing,  // the job or a resident does not share (with this owner)
  kHost,     // host cores or memory of the node
};
std::string_view ToString(Obstacle obstacle);

// What a plan in the making has already handed out, on top of the view.
class PlanBook {
 public:
  void Begin(const PlanningView& view);
  void Add(const QueuedJob& job, const Slot& slot, Bytes memory);
  // Residents this plan has added to the device, in order.
  std::span<const Resident> Added(DeviceId device) const;
  NodeState Free(NodeId node) const;  // the view's, less what was added
  bool Empty(const DeviceState& device) const {
    return device.residents.empty() && Added(device.id).empty();
  }
  MilliShare ShareFree(const DeviceState& device) const;
  Bytes MemoryFree(const DeviceState& device) const;

 private:
  struct Entry {
    uint64_t epoch = 0;
    std::vector<Resident> residents;
    MilliShare share;
    Bytes memory;
  };
  struct NodeEntry {
    uint64_t epoch = 0;
    int cores_milli = 0;
    Bytes memory;
  };
  const PlanningView* view_ = nullptr;
  uint64_t epoch_ = 0;
  std::vector<Entry> entries_;  // by device
  std::vector<NodeEntry> nodes_;
};

// Memory the job needs on this type of device; nullopt where there is no estimate.
std::optional<Bytes> MemoryOn(const PlanningView& view, const QueuedJob& job, DeviceTypeId type);

// Whether each of the two lets the other on its device.
bool MayShare(OwnerId owner_a, workload::Sharing a, OwnerId owner_b, workload::Sharing b);

bool HostFits(const QueuedJob& job, const NodeState& node);

// Whether a node that is to take `members` of the job's gang has the host's cores and memory.
bool HostFitsMembers(const QueuedJob& job, const NodeState& node, int members);

// kNone if the device, empty and up, would admit the job.
Obstacle EverFits(const PlanningView& view, const QueuedJob& job, const DeviceState& device);

// kNone if a start in this slot is admissible now, on top of what `book` has handed out.
Obstacle FitsNow(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
                 const Slot& slot);

// A Reject if the job can never run (on `gang` devices), whatever ends; nullopt otherwise.
std::optional<Reject> RejectIfImpossible(const PlanningView& view, const QueuedJob& job);

}  // namespace hase::placement

// State: the engine's books. Who waits, who runs where, what is left of every device's shares and
// memory and of every node's cores. Plain bookkeeping: no policy, no executor, no journal; every
// change of a device is noted so that policies with indexes update only those.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/device.h"
#include "execution/engine.h"
#include "execution/outcome.h"
#include "execution/progress.h"
#include "placement/view.h"

namespace hase::execution {

struct JobState {
  workload::Job spec;
  ModelId model;
  OwnerId owner;
  std::vector<DeviceTypeId> types;  // admissible; empty = any, unless `no_type`
  bool no_type = false;             // names types that the cluster does not have
  bool arrived = false;
  bool end_unsaid = false;  // all inputs were done when the run before this one was killed
  int64_t inputs_done = 0, inputs_left = 0;  // left = neither done nor handed out
  int running = 0;
  int failures = 0;
  bool oom_retried = false;
  double memory_factor = 1;
  std::vector<placement::Slot> reserved;
  Nanos reserved_from;
  placement::Promise promise;  // the last Reserve, for a policy that starts anew; gone once started
  JobOutcome outcome;
  bool open() const { return outcome.ending == Ending::kOpen; }
};

struct RunState {
  JobId job;
  std::vector<placement::Slot> slots;
  int64_t batch = 1, inputs = 0, inputs_done = 0;
  Bytes memory;        // per slot
  bool active = true;  // holds its slots
  bool stopping = false;
  Progress progress;
  // Cached until somebody joins or leaves one of its devices, or a device's speed changes: the
  // estimate and the speed of its slowest slot, which sets the pace of a gang.
  const latency::Estimate* slowest = nullptr;
  double speed = 1;
  // The estimate of its first slot's device: what chunks are counted by.
  const latency::Estimate* counted = nullptr;
};

class State {
 public:
  State(const EngineOptions& options, const cluster::Cluster& cluster,
        const latency::Estimator& estimator, std::vector<JobInput> jobs);

  JobState& job(JobId id) { return jobs_[id.index()]; }
  RunState& run(RunId id) { return runs_[id.index()]; }
  placement::DeviceState& device(DeviceId id) { return devices_[id.index()]; }
  size_t job_count() const { return jobs_.size(); }
  size_t run_count() const { return runs_.size(); }
  const std::string& DeviceName(DeviceId id) const { return cluster_.devices[id.index()].name; }
  std::string SlotNames(std::span<const placement::Slot> slots) const;  // joined by '+'
  const cluster::DeviceType& Type(DeviceTypeId id) const { return cluster_.types[id.index()]; }
  size_t queue_length() const { return queue_.size(); }

  // The job's line in the queue: made, updated or taken out to match its JobState.
  void SyncQueue(JobId id);
  placement::QueuedJob QueueLine(JobId id) const;

  // Why the start is against the rules; nullopt = it is not.
  std::optional<std::string> Breach(const placement::Start& start);
  // Why no device, up or down, empty or not, could ever run the job; and what would fit.
  std::optional<placement::Reject> Impossible(JobId id) const;

  RunId Place(const placement::Start& start, Nanos now);
  void Release(RunId id, Nanos now);
  // Residents or speed have changed: everybody's pace and remaining work anew, and the device is
  // noted as changed.
  void Refresh(DeviceId id, Nanos now);
  // A run there has reported progress: everybody's remaining work anew, at the paces they have.
  // (All residents of a device are as of the same moment: policies integrate from it.)
  void RefreshProgress(DeviceId id, Nanos now);
  std::span<const RunId> runs_on(DeviceId id) const { return device_runs_[id.index()]; }

  placement::PlanningView View(Nanos now, bool everything_changed) const;
  void ForgetChanges();
  int overruns() const { return overruns_; }

 private:
  std::optional<std::string> SlotBreach(const JobState& job, const placement::Slot& slot,
                                        Bytes memory) const;
  Bytes MemoryFor(JobId id, DeviceTypeId type, int64_t batch) const;
  void RefreshPace(RunId id);
  void RefreshLeft(RunId id, Nanos now);
  void NoteChange(DeviceId id);
  void TakeHost(const JobState& job, std::span<const placement::Slot> slots, int sign);

  const cluster::Cluster& cluster_;
  const latency::Estimator& estimator_;
  std::vector<JobState> jobs_;
  std::vector<RunState> runs_;
  std::vector<placement::QueuedJob> queue_;
  std::vector<placement::DeviceState> devices_;
  std::vector<std::vector<RunId>> device_runs_;  // parallel to devices_[i].residents
  std::vector<placement::NodeState> nodes_;
  std::vector<DeviceId> changed_;
  std::vector<bool> is_changed_;
  std::vector<placement::PromiseOutcome> promise_outcomes_;
  int overruns_ = 0;
  std::vector<latency::Tenant> others_;  // scratch
};

}  // namespace hase::execution

// Simulation: the simulated backend, event source and executor in one, on a manual clock.
//
// Work is integrated over piecewise-constant rates: whenever the occupants of a device change, what
// each has done so far is settled, the world is asked for the new slow-downs, and its next
// milestone (model loaded, chunk done) is put into the heap anew; the old entry is recognised as
// stale by its version. Events are ordered by (time, sequence): same seed, same bytes.
//
// Not modelled: PCIe and network queues between devices, decision time (the clock stands still
// while a policy thinks; it is measured and reported instead), preemption inside a batch.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/device.h"
#include "execution/executor.h"
#include "world/world.h"

namespace hase::execution {

enum class FaultKind : uint8_t {
  kDeviceDown,
  kDeviceUp,
  kSlowDevice,    // true speed: times are multiplied by `factor` from then on; nobody is told
  kKillWorker,    // the process of a running job dies
  kOutOfMemory,   // the same, as an out-of-memory
  kCancel,        // the user withdraws a job
  kMispredicted,  // the job's true time is multiplied by `factor` (from its next start)
};

struct Fault {
  Nanos at;
  FaultKind kind = FaultKind::kDeviceDown;
  DeviceId device;  // device faults
  JobId job;        // job faults
  double factor = 1;
};

class Simulation final : public EventSource, public Executor {
 public:
  // References outlive the simulation.
  Simulation(const world::World& world, const cluster::Cluster& cluster, ManualClock& clock);

  void Inject(const Fault& fault);
  // The job's true times are multiplied by this (mispredicted jobs).
  void SetJobFactor(JobId job, double factor);

  std::optional<Event> Next(std::optional<Nanos> until) override;
  Status Start(const Launch& launch) override;
  void Stop(RunId run) override;

 private:
  struct Run {
    Launch launch;
    bool active = false, loading = true;
    Bytes memory;
    int64_t inputs_left = 0, chunk = 0;
    double noise = 1;
    std::vector<double> solo_s;  // per slot, one batch
    double units_left = 0;       // loading: seconds; running: batches of this chunk
    double seconds_per_unit = 1;
    Nanos settled_at, phase_began;
    uint32_t version = 0;
  };
  struct Item {
    Nanos time;
    uint64_t seq = 0;
    RunId run;
    uint32_t version = 0;
    int fault = -1;  // index into faults_; -1: a milestone of `run`
    bool operator>(const Item& other) const {
      return time != other.time ? time > other.time : seq > other.seq;
    }
  };

  void Push(Happening what);
  void Milestone(RunId id);
  void Strike(const Fault& fault);
  void BeginChunk(Run& run);
  void EndRun(RunId id);
  void Schedule(RunId id);
  void Settle(Run& run);
  void Recompute(DeviceId device);
  void UpdatePace(RunId id);
  bool BeyondMemory(const Run& run) const;

  const world::World& world_;
  const cluster::Cluster& cluster_;
  ManualClock& clock_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> heap_;
  std::deque<Event> ready_;
  std::vector<Run> runs_;  // by RunId
  std::vector<std::vector<RunId>> on_device_;
  std::vector<std::vector<double>> factors_;  // parallel to on_device_
  std::vector<double> device_factor_;
  std::vector<double> job_factor_;
  std::vector<uint64_t> starts_;  // by job
  std::vector<Fault> faults_;
  uint64_t seq_ = 0;
  uint64_t events_ = 0;
};

}  // namespace hase::execution

#include "execution/backends/simulated/simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "placement/view.h"

namespace hase::execution {

Simulation::Simulation(const world::World& world, const cluster::Cluster& cluster,
                       ManualClock& clock)
    : world_(world),
      cluster_(cluster),
      clock_(clock),
      on_device_(cluster.devices.size()),
      factors_(cluster.devices.size()),
      device_factor_(cluster.devices.size(), 1.0) {}

void Simulation::Inject(const Fault& fault) {
  Item item;
  item.time = fault.at;
  item.seq = seq_++;
  item.fault = static_cast<int>(faults_.size());
  faults_.push_back(fault);
  heap_.push(item);
}

void Simulation::SetJobFactor(JobId job, double factor) {
  if (job_factor_.size() <= job.index()) job_factor_.resize(job.index() + 1, 1.0);
  job_factor_[job.index()] = factor;
}

void Simulation::Push(Happening what) {
  ready_.push_back(Event{clock_.Now(), events_++, std::move(what)});
}

std::optional<Event> Simulation::Next(std::optional<Nanos> until) {
  while (ready_.empty()) {
    if (heap_.empty() || (until && heap_.top().time > *until)) {
      if (until) clock_.AdvanceTo(*until);
      return std::nullopt;
    }
    const Item item = heap_.top();
    heap_.pop();
    if (item.fault >= 0) {
      clock_.AdvanceTo(item.time);
      Strike(faults_[static_cast<size_t>(item.fault)]);
      continue;
    }
    const Run& run = runs_[item.run.index()];
    if (!run.active || run.version != item.version) continue;  // stale
    clock_.AdvanceTo(item.time);
    Milestone(item.run);
  }
  Event event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

Status Simulation::Start(const Launch& launch) {
  Run run;
  run.launch = launch;
  run.inputs_left = launch.inputs;
  run.settled_at = run.phase_began = clock_.Now();
  if (starts_.size() <= launch.job.index()) starts_.resize(2 * launch.job.index() + 1);
  run.noise = world_.RunNoise(launch.job, starts_[launch.job.index()]++);
  if (launch.job.index() < job_factor_.size()) run.noise *= job_factor_[launch.job.index()];
  double load_s = 0;
  for (const auto& slot : launch.slots) {
    const auto solo = world_.Alone(launch.model, slot.device, launch.batch);
    if (!solo) {
      return Unavailable(
          fmt::format("the simulated world has no times for this model at batch {} "
                      "on {}",
                      launch.batch, cluster_.devices[slot.device.index()].name));
    }
    run.solo_s.push_back(solo->batch_s);
    load_s = std::max(load_s, solo->load_s);
    run.memory = std::max(run.memory, solo->memory);
  }
  run.units_left = load_s;
  run.active = true;
  if (runs_.size() <= launch.run.index()) runs_.resize(launch.run.index() + 1);
  runs_[launch.run.index()] = std::move(run);
  for (const auto& slot : launch.slots) {
    on_device_[slot.device.index()].push_back(launch.run);
    factors_[slot.device.index()].push_back(1.0);
  }
  for (const auto& slot : launch.slots) Recompute(slot.device);
  return {};
}

void Simulation::Stop(RunId id) {
  if (id.index() >= runs_.size() || !runs_[id.index()].active) return;
  EndRun(id);
  Push(RunFailed{id, "stopped", false});
}

void Simulation::EndRun(RunId id) {
  Run& run = runs_[id.index()];
  run.active = false;
  for (const auto& slot : run.launch.slots) {
    auto& runs = on_device_[slot.device.index()];
    const auto at = std::find(runs.begin(), runs.end(), id) - runs.begin();
    runs.erase(runs.begin() + at);
    auto& factors = factors_[slot.device.index()];
    factors.erase(factors.begin() + at);
  }
  for (const auto& slot : run.launch.slots) Recompute(slot.device);
}

void Simulation::Settle(Run& run) {
  const Nanos now = clock_.Now();
  if (run.seconds_per_unit > 0) {
    const double done = ToSeconds(now - run.settled_at) / run.seconds_per_unit;
    run.units_left = std::max(0.0, run.units_left - done);
  }
  run.settled_at = now;
}

void Simulation::Schedule(RunId id) {
  Run& run = runs_[id.index()];
  Item item;
  item.time = clock_.Now() + FromSeconds(run.units_left * run.seconds_per_unit);
  item.seq = seq_++;
  item.run = id;
  item.version = ++run.version;
  heap_.push(item);
}

// A gang runs at the pace of its slowest slot.
void Simulation::UpdatePace(RunId id) {
  Run& run = runs_[id.index()];
  double pace = 0, load_pace = 1;
  for (size_t k = 0; k < run.launch.slots.size(); ++k) {
    const DeviceId device = run.launch.slots[k].device;
    const auto& runs = on_device_[device.index()];
    const auto at = std::find(runs.begin(), runs.end(), id) - runs.begin();
    const double factor = factors_[device.index()][static_cast<size_t>(at)];
    pace = std::max(pace, run.solo_s[k] * factor * device_factor_[device.index()]);
    load_pace = std::max(load_pace, world_.LoadFactor(device, factor));
  }
  run.seconds_per_unit = run.loading ? load_pace : pace * run.noise;
}

void Simulation::Recompute(DeviceId device) {
  const auto& runs = on_device_[device.index()];
  std::vector<world::Occupant> occupants;
  occupants.reserve(runs.size());
  for (const RunId id : runs) {
    const Run& run = runs_[id.index()];
    for (const auto& slot : run.launch.slots) {
      if (slot.device != device) continue;
      occupants.push_back({run.launch.model, run.launch.batch, slot.share, slot.mode});
    }
  }
  world_.Slowdowns(device, occupants, factors_[device.index()]);
  for (const RunId id : runs) {
    Settle(runs_[id.index()]);
    UpdatePace(id);
    Schedule(id);
  }
}

void Simulation::BeginChunk(Run& run) {
  const auto gang = static_cast<int64_t>(run.launch.slots.size());
  run.chunk = std::min(run.inputs_left, std::max<int64_t>(1, run.launch.chunk_inputs));
  run.units_left = placement::BatchesPerSlot(run.chunk, run.launch.batch, static_cast<int>(gang));
  run.phase_began = run.settled_at = clock_.Now();
}

// A limit holds for who shares a device; alone, the device itself is the limit.
bool Simulation::BeyondMemory(const Run& run) const {
  for (const auto& slot : run.launch.slots) {
    const auto& type = cluster_.types[cluster_.devices[slot.device.index()].type.index()];
    const bool alone = slot.mode == cluster::ShareMode::kExclusive;
    const Bytes limit = alone || run.launch.memory_limit == Bytes(0)
                            ? type.spec.memory
                            : std::min(type.spec.memory, run.launch.memory_limit);
    if (run.memory > limit) return true;
  }
  return false;
}

void Simulation::Milestone(RunId id) {
  Run& run = runs_[id.index()];
  Settle(run);
  const Nanos took = clock_.Now() - run.phase_began;
  if (run.loading) {
    if (BeyondMemory(run)) {
      const Bytes memory = run.memory;
      EndRun(id);
      Push(RunFailed{id, fmt::format("needs {} bytes", memory.value()), true});
      return;
    }
    run.loading = false;
    Push(RunLoaded{id, took, run.memory});
    BeginChunk(run);
    UpdatePace(id);
    Schedule(id);
    return;
  }
  run.inputs_left -= run.chunk;
  Push(ChunkDone{id, run.chunk, took});
  if (run.inputs_left > 0) {
    BeginChunk(run);
    Schedule(id);
    return;
  }
  const Bytes memory = run.memory;
  EndRun(id);
  Push(RunFinished{id, memory});
}

void Simulation::Strike(const Fault& fault) {
  const auto kill = [&](const char* why, bool oom) {
    for (uint32_t r = 0; r < runs_.size(); ++r) {
      if (!runs_[r].active || runs_[r].launch.job != fault.job) continue;
      EndRun(RunId(r));
      Push(RunFailed{RunId(r), why, oom});
      return;
    }
  };
  switch (fault.kind) {
    case FaultKind::kDeviceDown:
      Push(DeviceChanged{fault.device, false});
      break;
    case FaultKind::kDeviceUp:
      Push(DeviceChanged{fault.device, true});
      break;
    case FaultKind::kSlowDevice:
      device_factor_[fault.device.index()] = fault.factor;
      Recompute(fault.device);
      break;
    case FaultKind::kKillWorker:
      kill("worker killed", false);
      break;
    case FaultKind::kOutOfMemory:
      kill("out of memory", true);
      break;
    case FaultKind::kCancel:
      Push(JobCancelled{fault.job});
      break;
    case FaultKind::kMispredicted:
      SetJobFactor(fault.job, fault.factor);
      break;
  }
}

}  // namespace hase::execution

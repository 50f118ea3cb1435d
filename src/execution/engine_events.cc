// What an event does to runs, jobs and devices.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "execution/engine_core.h"

namespace hase::execution {

// How much a run that shared its card says of the card's speed, against one that had it alone.
constexpr double kSharedTrust = 0.25;
constexpr double kForeignFlicker = 0.1;

Result<bool> Engine::Core::Step() {
  for (const JobId id : std::exchange(end_unsaid_, {})) {
    now_ = std::max(now_, clock_.Now());
    HASE_RETURN_IF_ERROR(Log("finished", now_, state_.job(id).spec.job_id, ""));
  }
  if (open_jobs_ == 0 && active_runs_ == 0) return false;
  std::optional<Nanos> until = wake_at_;
  if (next_arrival_ < arrivals_.size()) {
    const Nanos arrival = state_.job(arrivals_[next_arrival_]).spec.arrival;
    if (!until || arrival < *until) until = arrival;
  }
  auto event = events_.Next(until);
  if (!event && !until) {
    HASE_RETURN_IF_ERROR(RejectTheStranded());
    return false;
  }
  now_ = std::max(now_, clock_.Now());
  while (event) {
    ++outcome_.events;
    HASE_RETURN_IF_ERROR(Handle(*event));
    event = events_.Next(now_);
  }
  while (next_arrival_ < arrivals_.size() &&
         state_.job(arrivals_[next_arrival_]).spec.arrival <= now_) {
    ++outcome_.events;
    HASE_RETURN_IF_ERROR(Arrive(arrivals_[next_arrival_++]));
  }
  if (wake_at_ && *wake_at_ <= now_) {
    wake_at_.reset();
    dirty_ = true;
  }
  if (dirty_) HASE_RETURN_IF_ERROR(Decide());
  return open_jobs_ > 0 || active_runs_ > 0;
}

Status Engine::Core::Handle(const Event& event) {
  const Nanos at = std::min(event.time, now_);
  if (const auto* e = std::get_if<JobArrived>(&event.what)) return Arrive(e->job);
  if (const auto* e = std::get_if<RunLoaded>(&event.what)) return OnLoaded(*e, at);
  if (const auto* e = std::get_if<ChunkDone>(&event.what)) return OnChunk(*e, at);
  if (const auto* e = std::get_if<RunFinished>(&event.what)) return OnFinished(*e, at);
  if (const auto* e = std::get_if<RunFailed>(&event.what)) return OnFailed(*e, at);
  if (const auto* e = std::get_if<DeviceChanged>(&event.what)) return OnDevice(*e, at);
  if (const auto* e = std::get_if<ForeignSeen>(&event.what)) return OnForeign(*e, at);
  if (const auto* e = std::get_if<JobCancelled>(&event.what)) return OnCancelled(e->job, at);
  dirty_ = true;  // Timer
  return {};
}

Status Engine::Core::Arrive(JobId id) {
  JobState& job = state_.job(id);
  if (job.arrived || !job.open()) return {};
  job.arrived = true;
  dirty_ = true;
  HASE_RETURN_IF_ERROR(Log("arrived", now_, job.spec.job_id, ""));
  if (auto reject = state_.Impossible(id)) return Reject(*reject);
  state_.SyncQueue(id);
  return {};
}

Status Engine::Core::OnLoaded(const RunLoaded& e, Nanos at) {
  if (!Active(e.run)) return {};
  RunState& run = state_.run(e.run);
  run.progress.Advance(at);
  run.progress.NoteLoaded();
  auto& record = outcome_.runs[e.run.index()];
  record.loaded = at;
  record.peak_memory = std::max(record.peak_memory, e.peak_memory);
  state_.RefreshProgress(state_.run(e.run).slots[0].device, at);
  return {};
}

void Engine::Core::TakeChunk(RunId id, int64_t inputs, Nanos at) {
  RunState& run = state_.run(id);
  JobState& job = state_.job(run.job);
  inputs = std::min(inputs, run.inputs - run.inputs_done);
  run.progress.Advance(at);
  run.inputs_done += inputs;
  job.inputs_done += inputs;
  run.progress.NoteChunk(
      placement::BatchesPerSlot(inputs, run.batch, static_cast<int>(run.slots.size())),
      *run.counted, state_.device(run.slots[0].device).speed_factor);
}

Status Engine::Core::OnChunk(const ChunkDone& e, Nanos at) {
  if (!Active(e.run)) return {};
  TakeChunk(e.run, e.inputs, at);
  const int overruns = state_.overruns();
  state_.RefreshProgress(state_.run(e.run).slots[0].device, at);
  // Progress as predicted changes no decision; a run that passes its p99 may.
  dirty_ = dirty_ || state_.overruns() > overruns;
  return LogRun("chunk", e.run, at, "");
}

Status Engine::Core::OnFinished(const RunFinished& e, Nanos at) {
  if (!Active(e.run)) return {};
  RunState& run = state_.run(e.run);
  const JobId id = run.job;
  if (run.inputs_done < run.inputs) {
    TakeChunk(e.run, run.inputs - run.inputs_done, at);
    HASE_RETURN_IF_ERROR(LogRun("chunk", e.run, at, ""));
  }
  JobState& job = state_.job(id);
  auto& record = outcome_.runs[e.run.index()];
  record.peak_memory = std::max(record.peak_memory, e.peak_memory);
  const bool all = job.inputs_done >= job.spec.inputs;
  HASE_RETURN_IF_ERROR(LogRun("finished", e.run, at, all ? "" : "part"));
  LearnSpeed(e.run);
  Close(e.run, at, true, "");
  if (all && job.open()) End(id, Ending::kFinished, at, "");
  return {};
}

Status Engine::Core::OnFailed(const RunFailed& e, Nanos at) {
  if (!Active(e.run)) return {};
  const bool wanted = state_.run(e.run).stopping;
  const JobId id = state_.run(e.run).job;
  JobState& job = state_.job(id);
  outcome_.out_of_memory += e.out_of_memory;
  if (!wanted) HASE_RETURN_IF_ERROR(LogRun("failed", e.run, at, e.why));
  Close(e.run, at, false, e.why);
  if (wanted || !job.open()) return {};
  if (e.out_of_memory) {
    if (job.oom_retried) return Fail(id, at, "out of memory again: " + e.why);
    job.oom_retried = true;
    job.memory_factor *= options_.oom_factor;
    if (const auto reject = state_.Impossible(id)) {
      return Fail(id, at, "out of memory, and " + reject->why + " for a second try");
    }
  } else if (++job.failures > options_.retries) {
    return Fail(id, at, e.why);
  }
  state_.SyncQueue(id);
  return {};
}

// Forecasts follow at once; decisions only where the load lies further from the one last decided
// for than counters flicker, so that one that creeps is noticed too.
Status Engine::Core::OnForeign(const ForeignSeen& e, Nanos at) {
  if (e.device.index() >= decided_on_.size()) return {};
  state_.device(e.device).foreign = e.load;
  auto& was = decided_on_[e.device.index()];
  const double change = std::max({std::abs(e.load.sm - was.sm), std::abs(e.load.dram - was.dram),
                                  std::abs(e.load.stream_stretch - was.stream_stretch)});
  state_.Refresh(e.device, at);
  if (was.valid != e.load.valid || change > kForeignFlicker) {
    was = e.load;
    dirty_ = true;
  }
  return {};
}

Status Engine::Core::OnDevice(const DeviceChanged& e, Nanos at) {
  if (e.device.index() >= decided_on_.size()) return {};
  auto& device = state_.device(e.device);
  dirty_ = true;
  if (device.up == e.up) {
    state_.Refresh(e.device, at);
    return {};
  }
  device.up = e.up;
  HASE_RETURN_IF_ERROR(
      Log("device", at, "", state_.DeviceName(e.device), MilliShare(0), e.up ? "up" : "down"));
  if (!e.up) {
    const auto here = state_.runs_on(e.device);
    for (const RunId run : std::vector<RunId>(here.begin(), here.end())) {
      HASE_RETURN_IF_ERROR(LoseRun(run, at, "its device went down"));
    }
    HASE_RETURN_IF_ERROR(LostPromises(e.device));
  }
  state_.Refresh(e.device, at);
  return {};
}

// The slots are free at once: a device that is down runs nothing. What the executor still says of
// the run is ignored.
Status Engine::Core::LoseRun(RunId id, Nanos at, const std::string& why) {
  const JobId job = state_.run(id).job;
  HASE_RETURN_IF_ERROR(LogRun("moved", id, at, why));
  executor_.Stop(id);
  Close(id, at, false, why);
  state_.SyncQueue(job);
  return {};
}

Status Engine::Core::LostPromises(DeviceId device) {
  for (const auto& [arrival, id] : reserved_) {
    const JobState& job = state_.job(id);
    const bool here = std::any_of(job.reserved.begin(), job.reserved.end(),
                                  [&](const placement::Slot& s) { return s.device == device; });
    outcome_.promises_on_lost_devices += here;
  }
  return {};
}

Status Engine::Core::OnCancelled(JobId id, Nanos at) {
  if (id.index() >= state_.job_count() || !state_.job(id).open()) return {};
  HASE_RETURN_IF_ERROR(Log("cancelled", at, state_.job(id).spec.job_id, ""));
  StopParts(id);
  End(id, Ending::kCancelled, at, "cancelled");
  return {};
}

void Engine::Core::StopParts(JobId id) {
  if (state_.job(id).running == 0) return;
  for (uint32_t r = 0; r < state_.run_count(); ++r) {
    RunState& run = state_.run(RunId(r));
    if (!run.active || run.job != id) continue;
    run.stopping = true;
    executor_.Stop(RunId(r));
  }
}

Status Engine::Core::Fail(JobId id, Nanos at, const std::string& why) {
  HASE_RETURN_IF_ERROR(
      Log("failed", at, state_.job(id).spec.job_id, "", MilliShare(0), "for good: " + why));
  StopParts(id);
  End(id, Ending::kFailed, at, why);
  return {};
}

Status Engine::Core::Reject(const placement::Reject& reject) {
  JobState& job = state_.job(reject.job);
  if (!job.open()) return {};
  HASE_RETURN_IF_ERROR(Log("rejected", now_, job.spec.job_id, "", MilliShare(0),
                           reject.nearest_feasible.empty()
                               ? reject.why
                               : reject.why + " (" + reject.nearest_feasible + ")"));
  if (decisions_) decisions_->OnDecision(now_, reject);
  job.outcome.nearest_feasible = reject.nearest_feasible;
  outcome_.infeasible = true;
  StopParts(reject.job);
  End(reject.job, Ending::kRejected, now_, reject.why);
  return {};
}

// No event will ever come and the policy starts nothing: say so instead of hanging.
Status Engine::Core::RejectTheStranded() {
  for (uint32_t j = 0; j < state_.job_count(); ++j) {
    if (!state_.job(JobId(j)).open()) continue;
    HASE_RETURN_IF_ERROR(
        Reject({JobId(j), "nothing runs, no device will come back, and it was not started", ""}));
  }
  return {};
}

// Gives the run's slots and unfinished inputs back.
void Engine::Core::Close(RunId id, Nanos at, bool ok, const std::string& why) {
  RunState& run = state_.run(id);
  run.progress.Advance(at);
  auto& record = outcome_.runs[id.index()];
  record.ended = at;
  record.inputs_done = run.inputs_done;
  record.predicted_work_s = run.progress.work_s;
  record.observed_work_s = run.progress.observed_s;
  record.ok = ok;
  record.why = why;
  state_.job(run.job).inputs_left += run.inputs - run.inputs_done;
  state_.Release(id, at);
  state_.SyncQueue(run.job);
  --active_runs_;
  dirty_ = true;
}

void Engine::Core::End(JobId id, Ending ending, Nanos at, const std::string& why) {
  JobState& job = state_.job(id);
  job.outcome.ending = ending;
  job.outcome.end = at;
  job.outcome.why = why;
  reserved_.erase({job.spec.arrival, id});
  state_.SyncQueue(id);
  --open_jobs_;
  dirty_ = true;
}

// A card's speed against its type's (speed_factor.h), from one finished run. Gangs say nothing of
// any one card.
void Engine::Core::LearnSpeed(RunId id) {
  const RunState& run = state_.run(id);
  const auto& progress = run.progress;
  if (!options_.learn_speeds || run.slots.size() != 1) return;
  if (progress.base_s <= 0 || progress.observed_s <= 0) return;
  auto& device = state_.device(run.slots[0].device);
  speeds_.Observe(device.id, device.type, state_.job(run.job).model, progress.base_s,
                  progress.observed_s, progress.ever_shared ? kSharedTrust : 1);
  device.speed_factor = speeds_.DeviceFactor(device.id);
}

}  // namespace hase::execution

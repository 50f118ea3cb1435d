#include "execution/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "execution/state.h"
#include "latency/speed_factor.h"

namespace hase::execution {

using placement::Slot;

// How much a run that shared its card says of the card's speed, against one that had it alone.
constexpr double kSharedTrust = 0.25;
constexpr double kForeignFlicker = 0.1;

std::string_view ToString(Ending ending) {
  constexpr std::string_view kNames[] = {"open", "finished", "failed", "rejected", "cancelled"};
  return kNames[static_cast<size_t>(ending)];
}

class Engine::Core {
 public:
  Core(EngineOptions options, const Clock& clock, EventSource& events, Executor& executor,
       placement::Policy& policy, const latency::Estimator& estimator,
       const cluster::Cluster& cluster, std::vector<JobInput> jobs, Journal& journal,
       DecisionSink* decisions)
      : options_(options),
        clock_(clock),
        events_(events),
        executor_(executor),
        policy_(policy),
        estimator_(estimator),
        journal_(journal),
        decisions_(decisions),
        state_(options_, cluster, estimator, std::move(jobs)),
        devices_(cluster.devices.size()) {
    for (uint32_t j = 0; j < state_.job_count(); ++j) {
      if (state_.job(JobId(j)).end_unsaid) end_unsaid_.push_back(JobId(j));
      if (!state_.job(JobId(j)).open()) continue;
      arrivals_.push_back(JobId(j));
      ++open_jobs_;
    }
    std::stable_sort(arrivals_.begin(), arrivals_.end(), [this](JobId a, JobId b) {
      return state_.job(a).spec.arrival < state_.job(b).spec.arrival;
    });
  }

  Result<bool> Step();
  placement::PlanningView View() const { return state_.View(now_, true); }
  latency::SpeedFactors::Card CardOf(DeviceId device) const { return speeds_.Of(device); }
  Outcome TakeOutcome();

 private:
  // Taking events in.
  Status Handle(const Event& event);
  Status Arrive(JobId id);
  Status OnLoaded(const RunLoaded& e, Nanos at);
  Status OnChunk(const ChunkDone& e, Nanos at);
  Status OnFinished(const RunFinished& e, Nanos at);
  Status OnFailed(const RunFailed& e, Nanos at);
  Status OnDevice(const DeviceChanged& e, Nanos at);
  Status OnForeign(const ForeignSeen& e, Nanos at);
  Status OnCancelled(JobId id, Nanos at);
  Status LoseRun(RunId id, Nanos at, const std::string& why);
  Status LostPromises(DeviceId device);
  Status Reject(const placement::Reject& reject);
  Status Fail(JobId id, Nanos at, const std::string& why);
  Status RejectTheStranded();
  void TakeChunk(RunId id, int64_t inputs, Nanos at);
  void Close(RunId id, Nanos at, bool ok, const std::string& why);
  void End(JobId id, Ending ending, Nanos at, const std::string& why);
  void StopParts(JobId id);
  void LearnSpeed(RunId id);
  bool Active(RunId id) { return id.index() < state_.run_count() && state_.run(id).active; }

  // Deciding.
  Status Decide();
  Status Apply(const placement::Decision& decision, size_t number);
  Status Start(const placement::Start& start);
  Status Reserve(const placement::Reserve& reserve);
  int64_t ChunkInputs(const placement::Start& start);

  Status Log(std::string_view kind, Nanos at, const std::string& job, std::string device,
             MilliShare share = MilliShare(0), std::string why = {}, Nanos predicted = Nanos(0),
             int64_t inputs = 0);
  Status LogRun(std::string_view kind, RunId id, Nanos at, std::string why);

  const EngineOptions options_;
  const Clock& clock_;
  EventSource& events_;
  Executor& executor_;
  placement::Policy& policy_;
  const latency::Estimator& estimator_;
  Journal& journal_;
  DecisionSink* decisions_;
  State state_;
  std::vector<JobId> arrivals_;  // by time
  size_t next_arrival_ = 0;
  std::vector<JobId> end_unsaid_;  // killed between their last chunk's entry and their end's
  size_t open_jobs_ = 0;
  size_t active_runs_ = 0;
  std::set<std::pair<Nanos, JobId>> reserved_;  // who holds a reservation, by arrival
  size_t devices_;
  latency::SpeedFactors speeds_;
  std::optional<Nanos> wake_at_;
  Nanos now_;
  bool dirty_ = true;  // a decision is due
  bool first_decision_ = true;
  uint64_t log_seq_ = 0;
  Outcome outcome_;
};

// ---- taking events in --------------------------------------------------------------------------

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

// Forecasts follow at once; decisions only where the load changed by more than counters flicker.
Status Engine::Core::OnForeign(const ForeignSeen& e, Nanos at) {
  if (e.device.index() >= devices_) return {};
  auto& device = state_.device(e.device);
  const auto was = std::exchange(device.foreign, e.load);
  const double change = std::max({std::abs(e.load.sm - was.sm), std::abs(e.load.dram - was.dram),
                                  std::abs(e.load.stream_stretch - was.stream_stretch)});
  state_.Refresh(e.device, at);
  dirty_ = dirty_ || was.valid != e.load.valid || change > kForeignFlicker;
  return {};
}

Status Engine::Core::OnDevice(const DeviceChanged& e, Nanos at) {
  if (e.device.index() >= devices_) return {};
  auto& device = state_.device(e.device);
  dirty_ = true;
  if (e.speed_factor) device.speed_factor = *e.speed_factor;
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
                                  [&](const Slot& s) { return s.device == device; });
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

// ---- deciding ----------------------------------------------------------------------------------

Status Engine::Core::Decide() {
  dirty_ = false;
  const auto view = state_.View(now_, first_decision_);
  const auto before = std::chrono::steady_clock::now();
  const placement::Plan plan = policy_.Decide(view);
  const auto took = std::chrono::steady_clock::now() - before;
  outcome_.decision_ns.push_back(
      std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  first_decision_ = false;
  state_.ForgetChanges();
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    HASE_RETURN_IF_ERROR(Apply(plan.decisions[i], i));
  }
  if (plan.wake_at && *plan.wake_at <= now_) {
    return Invalid(fmt::format("the policy asks to be woken at {} ns, which is not after {} ns",
                               plan.wake_at->value(), now_.value()));
  }
  wake_at_ = plan.wake_at;
  return {};
}

Status Engine::Core::Apply(const placement::Decision& decision, size_t number) {
  const JobId id = std::visit([](const auto& d) { return d.job; }, decision);
  if (id.index() >= state_.job_count()) {
    return Invalid(
        fmt::format("policy breach at {} ns, decision {}: no such job", now_.value(), number));
  }
  if (const auto* reject = std::get_if<placement::Reject>(&decision)) return Reject(*reject);
  if (decisions_) decisions_->OnDecision(now_, decision);
  if (const auto* reserve = std::get_if<placement::Reserve>(&decision)) return Reserve(*reserve);
  const auto* start = std::get_if<placement::Start>(&decision);
  if (!start) return {};
  if (const auto breach = state_.Breach(*start)) {
    return Invalid(fmt::format("policy breach at {} ns, decision {} (start {} on {}): {}",
                               now_.value(), number, state_.job(id).spec.job_id,
                               start->slots.empty() ? "nothing" : state_.SlotNames(start->slots),
                               *breach));
  }
  return Start(*start);
}

Status Engine::Core::Start(const placement::Start& start) {
  JobState& job = state_.job(start.job);
  const Nanos finish = start.record.predicted_finish;
  HASE_RETURN_IF_ERROR(Log("started", now_, job.spec.job_id, state_.SlotNames(start.slots),
                           start.slots[0].share, start.record.why, finish, job.inputs_done));
  reserved_.erase({job.spec.arrival, start.job});
  const RunId id = state_.Place(start, now_);
  ++active_runs_;
  ++job.outcome.starts;
  if (!job.outcome.first_start) job.outcome.first_start = now_;
  const auto& run = state_.run(id);
  const auto* estimate =
      estimator_.Find(job.model, state_.device(start.slots[0].device).type, start.batch);
  RunOutcome record;
  record.job = start.job;
  record.slots = start.slots;
  record.batch = start.batch;
  record.inputs = start.inputs;
  record.started = now_;
  record.predicted_finish = finish;
  record.predicted_load_s = estimate->load_s;
  record.predicted_memory = run.memory;
  record.backfilled =
      !reserved_.empty() && *reserved_.begin() < std::pair(job.spec.arrival, start.job);
  outcome_.runs.push_back(std::move(record));
  const Launch launch{id,          start.job,    job.model,          start.slots,
                      start.batch, start.inputs, ChunkInputs(start), run.memory};
  if (auto status = executor_.Start(launch); !status) {
    return OnFailed({id, status.error().message, false}, now_);
  }
  return {};
}

Status Engine::Core::Reserve(const placement::Reserve& reserve) {
  JobState& job = state_.job(reserve.job);
  if (!job.open() || !job.arrived) return {};
  if (job.running == 0) {
    job.promise = {{},
                   reserve.from,
                   reserve.probability,
                   reserve.planned_start,
                   reserve.expected,
                   reserve.deviation};
    for (const Slot& slot : reserve.slots) job.promise.devices.push_back(slot.device);
    state_.SyncQueue(reserve.job);
  }
  const bool again = reserved_.contains({job.spec.arrival, reserve.job});
  if (again && job.reserved == reserve.slots && job.reserved_from == reserve.from) return {};
  job.reserved = reserve.slots;
  job.reserved_from = reserve.from;
  reserved_.emplace(job.spec.arrival, reserve.job);
  if (!job.outcome.promise && !job.outcome.first_start) {
    job.outcome.promise = Promise{now_, reserve.from, reserve.probability};
  }
  return Log(again ? "moved" : "reserved", now_, job.spec.job_id, state_.SlotNames(reserve.slots),
             reserve.slots.empty() ? MilliShare(0) : reserve.slots[0].share, reserve.record.why,
             reserve.from);
}

int64_t Engine::Core::ChunkInputs(const placement::Start& start) {
  const auto* estimate = estimator_.Find(state_.job(start.job).model,
                                         state_.device(start.slots[0].device).type, start.batch);
  const int gang = static_cast<int>(start.slots.size());
  const double batches = placement::BatchesPerSlot(start.inputs, start.batch, gang);
  const double whole_s = batches * estimate->latency_s;
  const double chunk_s =
      std::max(ToSeconds(options_.chunk_target), whole_s * options_.chunk_fraction);
  const double chunk =
      estimate->latency_s > 0 ? std::floor(chunk_s / estimate->latency_s) : batches;
  const auto per_slot = static_cast<int64_t>(std::clamp(chunk, 1.0, batches));
  return std::min(start.inputs, per_slot * start.batch * gang);
}

// ---- writing down ------------------------------------------------------------------------------

Status Engine::Core::Log(std::string_view kind, Nanos at, const std::string& job,
                         std::string device, MilliShare share, std::string why, Nanos predicted,
                         int64_t inputs) {
  if (!journal_.wanted()) return {};
  LogEntry entry;
  entry.time = at;
  entry.seq = log_seq_++;
  entry.kind = kind;
  entry.job = job;
  entry.device = std::move(device);
  entry.share = share;
  entry.why = std::move(why);
  entry.predicted = predicted;
  entry.inputs = inputs;
  return journal_.Append(entry);
}

Status Engine::Core::LogRun(std::string_view kind, RunId id, Nanos at, std::string why) {
  if (!journal_.wanted()) return {};
  const RunState& run = state_.run(id);
  const JobState& job = state_.job(run.job);
  return Log(kind, at, job.spec.job_id, state_.SlotNames(run.slots), run.slots[0].share,
             std::move(why), Nanos(0), job.inputs_done);
}

Outcome Engine::Core::TakeOutcome() {
  outcome_.jobs.clear();
  for (uint32_t j = 0; j < state_.job_count(); ++j) {
    outcome_.jobs.push_back(state_.job(JobId(j)).outcome);
  }
  outcome_.overruns = state_.overruns();
  outcome_.end = now_;
  return std::move(outcome_);
}

// ---- the public face ---------------------------------------------------------------------------

Engine::Engine(EngineOptions options, const Clock& clock, EventSource& events, Executor& executor,
               placement::Policy& policy, const latency::Estimator& estimator,
               const cluster::Cluster& cluster, std::vector<JobInput> jobs, Journal& journal,
               DecisionSink* decisions)
    : core_(std::make_unique<Core>(options, clock, events, executor, policy, estimator, cluster,
                                   std::move(jobs), journal, decisions)) {}
Engine::~Engine() = default;

Result<bool> Engine::Step() { return core_->Step(); }
latency::SpeedFactors::Card Engine::CardOf(DeviceId device) const { return core_->CardOf(device); }
placement::PlanningView Engine::View() const { return core_->View(); }
Outcome Engine::TakeOutcome() { return core_->TakeOutcome(); }

Result<Outcome> Engine::Run() {
  for (;;) {
    HASE_ASSIGN_OR_RETURN(const bool more, Step());
    if (!more) return TakeOutcome();
  }
}

}  // namespace hase::execution

#include "execution/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "execution/engine_core.h"

namespace hase::execution {

std::string_view ToString(Ending ending) {
  constexpr std::string_view kNames[] = {"open", "finished", "failed", "rejected", "cancelled"};
  return kNames[static_cast<size_t>(ending)];
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
    for (const placement::Slot& slot : reserve.slots) job.promise.devices.push_back(slot.device);
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

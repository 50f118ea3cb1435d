// Engine::Core: the engine's state and its steps. engine_events.cc takes events in, engine.cc
// decides and writes down. For these two files only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execution/engine.h"
#include "execution/state.h"

namespace hase::execution {

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
        decided_on_(cluster.devices.size()) {
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
  std::set<std::pair<Nanos, JobId>> reserved_;    // who holds a reservation, by arrival
  std::vector<latency::ForeignLoad> decided_on_;  // by device: the load last decided for
  latency::SpeedFactors speeds_;
  std::optional<Nanos> wake_at_;
  Nanos now_;
  bool dirty_ = true;  // a decision is due
  bool first_decision_ = true;
  uint64_t log_seq_ = 0;
  Outcome outcome_;
};

}  // namespace hase::execution

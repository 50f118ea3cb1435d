// Engine: takes one event at a time, keeps the state of queue and devices, asks the policy, checks
// its plan, and hands what shall start to the executor. Live and simulated runs differ in three
// constructor arguments: Clock, EventSource, Executor.
//
// Rules it enforces on every policy: shares and memory are never booked twice, nothing starts on a
// device that is down or beside somebody who shares with nobody, gangs get distinct devices, a
// job's inputs are handed out once. A plan that breaks one is the policy's fault and ends the run
// with an error naming the decision. All events of equal time are taken in before one Decide().
//
// Failures: a worker that dies costs its unfinished chunk; the job goes on from its last finished
// one `retries` times, then fails with the reason. Out of memory: tried again once, asking for
// `oom_factor` more. A lost device moves its residents back into the queue and charges them no
// retry. What can never run is rejected on arrival; the rest goes on.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "execution/executor.h"
#include "execution/journal.h"
#include "execution/outcome.h"
#include "latency/speed_factor.h"
#include "placement/policy.h"
#include "workload/job.h"

namespace hase::execution {

struct EngineOptions {
  // A chunk is this much predicted work, or `chunk_fraction` of the job where that is more.
  Nanos chunk_target = FromSeconds(1);
  double chunk_fraction = 0.05;
  int retries = 1;
  double oom_factor = 1.5;
  // What driver and contexts leave of a GPU's memory: cards report 0.5-4 % less than the data sheet
  // says (docs/limits.md).
  double gpu_memory_usable = 0.96;
  bool learn_speeds = true;  // per card, from finished runs (latency/speed_factor.h)
};

struct JobInput {
  workload::Job job;
  ModelId model;
  int64_t inputs_done = 0;  // in the run that this one resumes
  bool over = false;        // ended there
};

// Told of every decision with its numbers (`hase explain`).
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void OnDecision(Nanos now, const placement::Decision& decision) = 0;
};

class Engine {
 public:
  // All references outlive the engine. `decisions` may be null.
  Engine(EngineOptions options, const Clock& clock, EventSource& events, Executor& executor,
         placement::Policy& policy, const latency::Estimator& estimator,
         const cluster::Cluster& cluster, std::vector<JobInput> jobs, Journal& journal,
         DecisionSink* decisions = nullptr);
  ~Engine();

  // Until every job has ended, or nothing more can happen. Errors: a policy's breach, a journal
  // that cannot be written.
  Result<Outcome> Run();

  // One step: the next event with all of equal time, then one decision if something changed.
  // False when everything has ended. For callers that look in between (snapshots).
  Result<bool> Step();
  placement::PlanningView View() const;  // valid until the next Step
  Outcome TakeOutcome();
  // What finished jobs say of a card's speed against its twins', and whether it stands out.
  latency::SpeedFactors::Card CardOf(DeviceId device) const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace hase::execution

// A small executor for tests of policies: exact piecewise-constant progress, every invariant of a
// plan checked at every start, promises kept book of. Not the simulator: no files, no worlds, no
// faults but those a test injects; what it shares with the product is nothing but the contracts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "placement/policy.h"

namespace hase::placement {

// Estimates from a table; a slow-down by share and company that either pays or does not, by model.
class FakeEstimator : public latency::Estimator {
 public:
  struct Model {
    std::vector<double> latency_s;  // by type; 0 = no estimate
    double load_s = 0;
    double sigma = 0;  // shared log-error
    Bytes memory = MiB(500);
    double compute_part = 1;  // 1: half a device takes twice as long; 0: as long as a whole one
    double contention = 0.1;  // more time per co-resident
  };
  ModelId Add(const Model& model);
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId, DeviceTypeId, int64_t) const override { return "not in the table"; }
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId type,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad& foreign) const override;

 private:
  std::vector<Model> models_;
  mutable std::map<std::tuple<uint32_t, uint32_t, int64_t>, latency::Estimate> estimates_;
};

struct TestJob {
  QueuedJob job;
  double truth_factor = 1;  // true time / predicted time
  // Results.
  int64_t done = 0;
  double first_start_s = -1;
  double finish_s = -1;
  bool rejected = false;
};

class TestWorld {
 public:
  FakeEstimator estimator;
  std::vector<cluster::DeviceType> types;
  std::vector<DeviceState> devices;
  std::vector<NodeState> nodes;
  std::vector<TestJob> jobs;
  // Devices that go down, in order of time; what ran there is queued again from its beginning.
  std::vector<std::pair<double, DeviceId>> failures;

  void AddDevices(int count, DeviceTypeId type, Bytes memory,
                  std::vector<cluster::ShareMode> modes = {}, double speed_factor = 1);
  // Arrivals must not decrease. Returns the job, to be changed before Run().
  QueuedJob& AddJob(ModelId model, int64_t inputs, double arrival_s, double truth_factor = 1);

  struct Kept {
    JobId job;
    double made_s, from_s, probability;
    bool kept = false;
  };
  struct Outcome {
    double makespan_s = 0, mean_flow_s = 0;
    int64_t decisions = 0, starts = 0, co_located = 0;
    std::vector<Kept> promises;       // the first one each job was given
    std::vector<std::string> broken;  // invariants that failed; empty is good
    bool stuck = false;               // jobs waited, nothing ran, and the policy started nothing
  };
  // Runs every job to its end (or rejection). `observe` sees every view and plan.
  Outcome Run(Policy& policy,
              const std::function<void(const PlanningView&, const Plan&)>& observe = {});

  // Work that is running.
  struct Part {
    size_t job;
    std::vector<Slot> slots;
    std::vector<latency::Spread> predicted;  // whole part, by slot
    int64_t inputs;
    double total_s, left_s;  // true, solo; of the slot that sets the pace
    double rate;
  };

 private:
  void Apply(const Plan& plan, Outcome& outcome);
  void ApplyStart(const Start& start, Outcome& outcome);
  void CheckStart(const Start& start, Outcome& outcome);
  void Note(const Reserve& reserve, Outcome& outcome);
  double NextFinish() const;  // seconds from now; infinite if nothing runs
  void Advance(double seconds);
  void FinishParts(Outcome& outcome);
  void FailDevices();
  void Refresh(DeviceId device);  // rates and residents' remaining work
  PlanningView View();

  Nanos now_;
  std::vector<Part> parts_;
  std::vector<QueuedJob> queue_;
  std::vector<PromiseOutcome> promise_outcomes_;
  std::vector<DeviceId> changed_;
  size_t failed_ = 0;
  bool first_ = true;
};

// A random cluster of a few types with jobs of every kind: gangs, cut jobs, constraints, deadlines,
// mispredictions of about `error`.
TestWorld RandomWorld(uint64_t seed, bool shareable, double error = 0.2);

}  // namespace hase::placement

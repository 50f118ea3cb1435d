// Fakes for tests of the engine: real code, small enough to work out by hand.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/device.h"
#include "execution/backends/simulated/simulation.h"
#include "execution/engine.h"
#include "execution/event_log.h"
#include "latency/estimator.h"
#include "placement/policy.h"
#include "world/simple_world.h"

namespace hase::execution::testing {

// Says exactly what SimpleWorld does, times `bias`.
class FakeEstimator : public latency::Estimator {
 public:
  explicit FakeEstimator(double gain = 1) : gain_(gain) {}
  void Set(ModelId model, DeviceTypeId type, int64_t batch, latency::Estimate estimate) {
    estimates_[{model, type, batch}] = std::move(estimate);
  }
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override {
    const auto at = estimates_.find({model, type, batch});
    return at == estimates_.end() ? nullptr : &at->second;
  }
  std::string WhyNot(ModelId, DeviceTypeId, int64_t) const override { return "not in the fake"; }
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad&) const override {
    return std::max(1.0, 1.0 / (ToFraction(tenant.share) * (others.empty() ? 1.0 : gain_)));
  }

 private:
  double gain_;
  std::map<std::tuple<ModelId, DeviceTypeId, int64_t>, latency::Estimate> estimates_;
};

// First come, first served, each job on the first idle devices that admit it; later jobs pass an
// earlier one that waits only if `overtake`.
class FifoPolicy : public placement::Policy {
 public:
  explicit FifoPolicy(bool overtake = false) : overtake_(overtake) {}
  placement::Plan Decide(const placement::PlanningView& view) override {
    placement::Plan plan;
    std::vector<bool> taken(view.devices.size());
    for (const auto& job : view.queue) {
      std::vector<placement::Slot> slots;
      for (const auto& d : view.devices) {
        if (static_cast<int>(slots.size()) == job.gang) break;
        const auto* e = view.estimator->Find(job.model, d.type, job.batch);
        const bool typed = job.device_types.empty() ||
                           std::find(job.device_types.begin(), job.device_types.end(), d.type) !=
                               job.device_types.end();
        if (taken[d.id.index()] || !d.up || !d.residents.empty() || !e || !typed) continue;
        if (placement::MemoryNeed(job, *e) > d.memory_total) continue;
        slots.push_back({d.id, kWholeDevice, cluster::ShareMode::kExclusive});
      }
      if (job.running_parts >= job.max_parallel) continue;
      if (static_cast<int>(slots.size()) < job.gang) {
        if (overtake_) continue;
        break;
      }
      for (const auto& slot : slots) taken[slot.device.index()] = true;
      placement::Start start;
      start.job = job.id;
      start.slots = slots;
      start.batch = job.batch;
      start.inputs = job.inputs_left;
      plan.decisions.emplace_back(std::move(start));
    }
    return plan;
  }

 private:
  bool overtake_;
};

// Plays a fixed list of plans, one per Decide(), then empty ones.
class ScriptPolicy : public placement::Policy {
 public:
  std::vector<placement::Plan> plans;
  placement::Plan Decide(const placement::PlanningView& view) override {
    seen.push_back(view.now);
    return next_ < plans.size() ? plans[next_++] : placement::Plan{};
  }
  std::vector<Nanos> seen;

 private:
  size_t next_ = 0;
};

// A cluster of `count` one-card nodes of one type, a model that takes 1 s per batch on it, an exact
// estimator, and everything wired together.
struct Bench {
  explicit Bench(uint32_t count, Bytes memory = GiB(16), double gain = 1)
      : estimator(gain), world(cluster, gain) {
    cluster.types.push_back({});
    cluster.types[0].name = cluster.types[0].spec.name = "T4";
    cluster.types[0].spec.memory = memory;
    for (uint32_t i = 0; i < count; ++i) {
      cluster.nodes.push_back({NodeId(i), "n" + std::to_string(i), 0, Bytes(0)});
      cluster::Device d;
      d.id = DeviceId(i);
      d.node = NodeId(i);
      d.name = "n" + std::to_string(i) + "/0";
      d.modes = {cluster::ShareMode::kExclusive, cluster::ShareMode::kMps};
      cluster.devices.push_back(d);
    }
    SetModel(ModelId(0), 1.0, 0.0, GiB(4));
  }
  void SetModel(ModelId model, double batch_s, double load_s, Bytes memory, int64_t batch = 1) {
    for (uint32_t t = 0; t < cluster.types.size(); ++t) {
      latency::Estimate e;
      e.latency_s = batch_s;
      e.load_s = load_s;
      e.memory_run = memory;
      estimator.Set(model, DeviceTypeId(t), batch, e);
      world.Set(model, DeviceTypeId(t), batch, {batch_s, load_s, memory});
    }
  }
  JobId Add(double arrival_s, int64_t inputs, ModelId model = ModelId(0), int gang = 1) {
    JobInput input;
    input.job.job_id = "j" + std::to_string(jobs.size());
    input.job.inputs = inputs;
    input.job.arrival = FromSeconds(arrival_s);
    input.job.gang = gang;
    input.model = model;
    jobs.push_back(input);
    return JobId(static_cast<uint32_t>(jobs.size() - 1));
  }
  Result<Outcome> Run(placement::Policy& policy) {
    ManualClock clock;
    Simulation simulation(world, cluster, clock);
    for (const auto& f : faults) simulation.Inject(f);
    journal = TextJournal();
    Engine engine(options, clock, simulation, simulation, policy, estimator, cluster, jobs,
                  journal);
    return engine.Run();
  }

  cluster::Cluster cluster;
  FakeEstimator estimator;
  world::SimpleWorld world;
  EngineOptions options;
  std::vector<JobInput> jobs;
  std::vector<Fault> faults;
  TextJournal journal;
};

}  // namespace hase::execution::testing

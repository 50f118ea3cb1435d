// SimCase: everything a simulation is made of, and one function that runs it under one policy. The
// command line, the scenario tests and the benchmarks all go through here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/yaml.h"
#include "cluster/device.h"
#include "execution/backends/simulated/simulation.h"
#include "execution/engine.h"
#include "latency/estimator.h"
#include "model/library.h"
#include "model/model_table.h"
#include "placement/policy.h"
#include "workload/job.h"
#include "world/world.h"

namespace hase::execution {

struct SimCase {
  cluster::Cluster cluster;
  model::ModelTable models;
  std::vector<JobInput> jobs;
  std::unique_ptr<model::ModelLibrary> library;  // null where tables say everything
  std::unique_ptr<latency::Estimator> estimator;
  std::unique_ptr<world::World> world;  // borrows the rest: a SimCase does not move once made
  std::vector<Fault> faults;
  std::vector<double> job_factors;  // by job; empty = all 1
  EngineOptions options;

  SimCase() = default;
  SimCase(const SimCase&) = delete;
  SimCase& operator=(const SimCase&) = delete;
};

// Interns the jobs' models.
std::vector<JobInput> MakeInputs(std::vector<workload::Job> jobs, model::ModelTable& models);

// `faults: [{at_s, kind, target, factor}]`: kind is device_down, device_up, slow, kill, oom, cancel
// or mispredict; target a device's or a job's name; factor for slow and mispredict. A fault that
// names a device and has `for_s` ends by itself after that time.
Result<std::vector<Fault>> ParseFaults(const Yaml& list, const SimCase& sim);

// One run. `journal` and `decisions` as for Engine.
Result<Outcome> RunCase(const SimCase& sim, placement::Policy& policy, Journal& journal,
                        DecisionSink* decisions = nullptr);

}  // namespace hase::execution

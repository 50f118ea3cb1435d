// hase replay: simulates the queue that a state folder's `hase run` ran, as the predictor saw it
// before that run, and sets the prediction beside what happened.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/live/accepted.h"
#include "apps/live/setting.h"
#include "apps/worlds.h"
#include "base/paths.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "execution/backends/simulated/sim_case.h"
#include "execution/event_log.h"
#include "latency/sample_store.h"
#include "measurement/metrics.h"
#include "measurement/store.h"
#include "workload/reader.h"

namespace hase::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Flags {
  std::string state;
  bool json = false;
};

struct Queue {
  live::Models models;
  execution::SimCase sim;
};

// What runs taught the predictor is left out: it would know the answer.
Result<std::unique_ptr<Queue>> Open(measurement::Store& store, const fs::path& state) {
  auto queue = std::make_unique<Queue>();
  auto& sim = queue->sim;
  HASE_ASSIGN_OR_RETURN(const auto accepted, live::Recall(store));
  if (!accepted.estimates.empty()) {
    return Usage("that queue was planned from a table of estimates; replay needs the predictor");
  }
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  const auto cpu = cluster::CpuSpec(cluster::DetectCpu());
  HASE_ASSIGN_OR_RETURN(
      sim.cluster, cluster::ParseCluster(accepted.cluster_name, accepted.cluster, catalogue, cpu));
  HASE_ASSIGN_OR_RETURN(const auto jobs,
                        workload::ParseJobsCsv("the accepted jobs", accepted.jobs));
  HASE_ASSIGN_OR_RETURN(queue->models, live::InternModels(jobs, state, true));
  HASE_ASSIGN_OR_RETURN(auto known, live::ReadMeasured(state, sim.cluster.types));
  std::erase_if(known, [](const latency::Sample& s) { return s.source == "run"; });
  sim.library = std::move(queue->models.library);
  sim.models = queue->models.table;
  HASE_ASSIGN_OR_RETURN(sim.estimator, apps::MakePredictor(sim, std::move(known)));
  sim.jobs = queue->models.inputs;
  sim.world = apps::ExactWorld(sim);
  return queue;
}

struct Compared {
  std::string policy;
  double predicted_s = 0, real_s = 0;  // makespans
  double median_completion_error = 0;  // of the jobs' completion times
  double same_device = 0;              // part of the jobs that ran where it was simulated
  double error() const { return real_s > 0 ? predicted_s / real_s - 1 : 0; }
};

Result<Compared> Compare(const Queue& queue, const measurement::StoredRun& run,
                         measurement::Store& store) {
  HASE_ASSIGN_OR_RETURN(const auto entries, store.Entries(run.id));
  HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy(run.policy));
  execution::NullJournal journal;
  HASE_ASSIGN_OR_RETURN(const auto outcome, execution::RunCase(queue.sim, *policy, journal));
  Compared c;
  c.policy = run.policy;
  c.predicted_s = measurement::ComputeMetrics(outcome, queue.sim.cluster.devices.size()).makespan_s;
  if (!entries.empty()) c.real_s = ToSeconds(entries.back().time - entries.front().time);
  std::map<std::string, double> real_end;
  std::map<std::string, std::string> real_device, simulated_device;
  for (const auto& e : entries) {
    if (e.kind == "finished" && e.why != "part") real_end[e.job] = ToSeconds(e.time);
    if (e.kind == "started") real_device.emplace(e.job, e.device);
  }
  for (const auto& r : outcome.runs) {
    std::string names;  // as the event log joins a gang's
    for (const auto& slot : r.slots) {
      names += (names.empty() ? "" : "+") + queue.sim.cluster.devices[slot.device.index()].name;
    }
    simulated_device.emplace(queue.sim.jobs[r.job.index()].job.job_id, std::move(names));
  }
  std::vector<double> errors;
  int same = 0;
  for (size_t j = 0; j < outcome.jobs.size(); ++j) {
    const auto& job = queue.sim.jobs[j].job;
    const auto at = real_end.find(job.job_id);
    if (at == real_end.end() || !outcome.jobs[j].end) continue;
    const double real = at->second - ToSeconds(job.arrival);
    const double simulated = ToSeconds(*outcome.jobs[j].end - job.arrival);
    if (real <= 0) continue;
    errors.push_back(std::abs(simulated / real - 1));
    same += real_device[job.job_id] == simulated_device[job.job_id];
  }
  if (!errors.empty()) {
    std::ranges::sort(errors);
    c.median_completion_error = errors[errors.size() / 2];
    c.same_device = static_cast<double>(same) / static_cast<double>(errors.size());
  }
  return c;
}

Result<int> Replay(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const fs::path state, StatePath(flags.state));
  std::error_code ignored;
  if (!fs::exists(state / "hase.db", ignored)) {
    return Usage(fmt::format("{}: no queue was run here (`hase run --state`)", state.string()));
  }
  HASE_ASSIGN_OR_RETURN(const auto store, measurement::Store::Open(state));
  HASE_ASSIGN_OR_RETURN(const auto queue, Open(*store, state));
  HASE_ASSIGN_OR_RETURN(const auto runs, store->Runs());
  std::vector<Compared> all;
  for (const auto& run : runs) {
    if (!run.done) continue;
    HASE_ASSIGN_OR_RETURN(auto compared, Compare(*queue, run, *store));
    all.push_back(std::move(compared));
  }
  if (all.empty()) return Usage("no run of the state folder has ended (`hase run --resume`)");
  if (flags.json) {
    Json out = {{"jobs", queue->sim.jobs.size()}, {"policies", Json::array()}};
    for (const auto& c : all) {
      out["policies"].push_back({{"name", c.policy},
                                 {"predicted_makespan_s", c.predicted_s},
                                 {"real_makespan_s", c.real_s},
                                 {"makespan_error", c.error()},
                                 {"median_completion_error", c.median_completion_error},
                                 {"same_device", c.same_device}});
    }
    fmt::print("{}\n", out.dump(1));
    return 0;
  }
  fmt::print("{:<16} {:>11} {:>10} {:>8} {:>17} {:>12}\n", "policy", "predicted s", "real s",
             "error", "completion error", "same device");
  for (const auto& c : all) {
    fmt::print("{:<16} {:>11.1f} {:>10.1f} {:>+6.1f} % {:>15.1f} % {:>10.0f} %\n", c.policy,
               c.predicted_s, c.real_s, c.error() * 100, c.median_completion_error * 100,
               c.same_device * 100);
  }
  return 0;
}

}  // namespace

Action SetUpReplay(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--state", flags->state, "State folder of the run");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> { return Replay(*flags); };
}

}  // namespace hase::cli

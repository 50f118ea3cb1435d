// hase demo: what HASE does, on this machine, from nothing, in a few minutes. The machine's cores
// become three unlike devices; some models are measured; a queue of jobs runs for real under
// round-robin and then under HASE; the makespans are compared with a lower bound (decision 222).
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <numeric>

#include "apps/cli/commands.h"
#include "apps/live/demo_jobs.h"
#include "apps/live/demo_measure.h"
#include "apps/live/figures.h"
#include "apps/live/live_run.h"
#include "apps/live/setting.h"
#include "apps/live/true_times.h"
#include "apps/predicting.h"
#include "base/paths.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "execution/event_log.h"
#include "measurement/store.h"

namespace hase::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Flags {
  std::string state, report;
  std::vector<uint64_t> seeds = {1};
  bool as_json = false, quick = false;
};

// Everything that is made once for all seeds.
struct Stage {
  fs::path state;
  cluster::Cluster cluster;
  std::vector<latency::Sample> samples;
  std::vector<std::string> enforcement;
  bool terminal = false, quick = false;
  void Say(const std::string& text) const {
    if (terminal) fmt::print(stderr, "{}\n", text);
  }
};

struct Act {
  std::string policy;
  live::LiveResult result;
  measurement::Metrics metrics;
};

struct SeedResult {
  uint64_t seed = 0;
  std::vector<workload::Job> jobs;
  std::vector<Act> acts;  // round-robin, hase
  double bound_s = 0, measured_part = 0, least_over_load = 0;
  std::optional<double> stolen;                      // the worse of both acts
  std::vector<measurement::PredictionPoint> points;  // of both acts
  std::vector<execution::JobInput> inputs;
  std::string report;
  double makespan(size_t act) const { return acts[act].metrics.makespan_s; }
  std::optional<double> gap() const {
    return measurement::ClosedGap(makespan(0), makespan(1), bound_s);
  }
};

live::Profiled ProfiledPairs(bool quick) {
  return [quick](const workload::Job& job) {
    return std::ranges::any_of(live::DemoPairs(quick), [&](const live::Pair& pair) {
      return pair.profiled && pair.model == job.model && pair.batch == job.batch;
    });
  };
}

// Devices, model files, benchmarks, profiles.
Result<Stage> SetTheStage(const Flags& flags) {
  Stage stage;
  stage.terminal = isatty(STDERR_FILENO) != 0;
  stage.quick = flags.quick;
  HASE_ASSIGN_OR_RETURN(const fs::path state, StateDir(flags.state));
  stage.state = state / "demo";
  std::error_code error;
  fs::create_directories(stage.state, error);
  stage.cluster = cluster::LocalCluster({}, cluster::DetectCpu());
  stage.Say("\n  HASE demo: this machine as a small cluster of unlike devices\n");
  for (const auto& device : stage.cluster.devices) {
    HASE_ASSIGN_OR_RETURN(
        const auto partition,
        execution::Partition::Make(
            {.cores = device.cpu_cores, .quota = stage.cluster.types[device.type.index()].quota}));
    stage.enforcement.push_back(partition.Describe());
    stage.Say(fmt::format("    {:<10} {}", device.name, partition.Describe()));
  }
  const auto pairs = live::DemoPairs(flags.quick);
  const auto profiled = std::ranges::count(pairs, true, &live::Pair::profiled);
  stage.Say(fmt::format(
      "\n  1  Measure the devices, and {} of the {} (model, batch) pairs that jobs will use.\n"
      "     The other {} are predicted kernel by kernel, never having been run.\n",
      profiled, pairs.size(), static_cast<int64_t>(pairs.size()) - profiled));
  // Measured anew each time: what is predicted here comes from this demo's own measurements.
  for (const char* suffix : {"", "-wal", "-shm"})
    fs::remove(stage.state / (std::string("samples.db") + suffix), error);
  HASE_ASSIGN_OR_RETURN(
      auto store, latency::SampleStore::Open(stage.state / "samples.db", live::MachineName()));
  HASE_ASSIGN_OR_RETURN(const fs::path data, DataDir());
  model::ModelLibrary library(data);
  const auto progress = [&](const std::string& what, double done) {
    if (stage.terminal)
      fmt::print(stderr, "\r    {} {:3.0f} %  {:<36}\x1b[K", live::Bar(done, 24), done * 100, what);
  };
  HASE_RETURN_IF_ERROR(
      live::MeasureForDemo({.state = stage.state, .quick = flags.quick, .progress = progress},
                           library, stage.cluster, store));
  stage.Say("");
  HASE_ASSIGN_OR_RETURN(stage.samples, store.Query({}));
  return stage;
}

// The pairs as jobs, so that they are interned before any job is drawn.
std::vector<workload::Job> PairsAsJobs(bool quick) {
  std::vector<workload::Job> jobs;
  for (const live::Pair& pair : live::DemoPairs(quick)) {
    workload::Job job;
    job.model = pair.model;
    job.batch = pair.batch;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<Act> Perform(const Stage& stage, const live::Models& models,
                    const latency::Estimator& estimator, const SeedResult& seed,
                    const std::string& policy) {
  execution::NullJournal journal;
  live::Progress progress(policy, stage.cluster, seed.jobs);
  HASE_ASSIGN_OR_RETURN(auto result, live::Run({.cluster = stage.cluster,
                                                .jobs = seed.inputs,
                                                .models = models.files,
                                                .estimator = estimator,
                                                .policy = policy,
                                                .journal = journal,
                                                .progress = &progress}));
  progress.Finish();
  Act act{.policy = policy, .result = std::move(result), .metrics = {}};
  act.metrics = measurement::ComputeMetrics(act.result.outcome, stage.cluster.devices.size());
  for (const auto& job : act.result.outcome.jobs)
    if (job.ending != execution::Ending::kFinished)
      return Unavailable(fmt::format("a job did not finish under {}: {}", policy, job.why));
  return act;
}

// The least of the jobs' measured computing over loading on the fastest device.
double LeastOverLoad(const live::TrueTimes& truth, const std::vector<execution::JobInput>& inputs,
                     const cluster::Cluster& cluster) {
  double least = 1e9;
  for (const auto& input : inputs) {
    const auto time = truth.Of(input.model, cluster.devices[0].type, input.job.batch);
    if (time && time->load_s > 0)
      least = std::min(least, static_cast<double>(input.job.inputs / input.job.batch) *
                                  time->batch_s / time->load_s);
  }
  return least;
}

measurement::Report MakeReport(const Stage& stage, const SeedResult& seed) {
  measurement::Report report;
  report.title = "HASE demo";
  report.subtitle =
      fmt::format("{} jobs on {} partitions of this machine ({}) · seed {}", seed.jobs.size(),
                  stage.cluster.devices.size(), live::MachineName(), seed.seed);
  const auto profiled = ProfiledPairs(stage.quick);
  const auto errors = live::ErrorsOf(seed.points, seed.inputs, profiled);
  report.cards = {
      {fmt::format("{:.0f} s → {:.0f} s", seed.makespan(0), seed.makespan(1)),
       "makespan, round-robin → hase"},
      {seed.gap() ? fmt::format("{:.0f} %", *seed.gap() * 100) : "-",
       "of the gap to the lower bound closed"},
      {fmt::format("{:.1f} %", errors.work.median * 100), "median error of predicted durations"},
      {fmt::format("{:.1f} %", errors.work_unprofiled.median * 100),
       "the same, on pairs never profiled"},
      {fmt::format("{:.1f} %", errors.load.median * 100), "median error of predicted loading"}};
  report.devices = live::Devices(stage.cluster, stage.enforcement);
  report.lower_bound_s = seed.bound_s;
  report.prediction_note =
      "One point per run and term: the work after loading, and loading. Dashed lines are 20 % off.";
  for (const Act& act : seed.acts) {
    auto policy = measurement::PolicyOf(act.policy, act.result.outcome, seed.jobs, stage.cluster);
    policy.closed_gap = measurement::ClosedGap(seed.makespan(0), policy.makespan_s, seed.bound_s);
    report.policies.push_back(std::move(policy));
    live::AddPoints(act.policy, act.result.outcome, seed.inputs, stage.cluster, profiled, report);
    report.decisions.insert(report.decisions.end(), act.result.decisions.begin(),
                            act.result.decisions.end());
  }
  report.notes = {
      fmt::format("The lower bound holds for every schedule: a linear programme over the measured "
                  "times of each job on each device type, loading included, with release times. "
                  "{:.0f} % of these times were measured, the others scaled from another device "
                  "by the ratio of their predictions.",
                  seed.measured_part * 100),
      fmt::format("HASE itself took {:.2f} s of processor time under its own policy.",
                  seed.acts.back().result.engine_processor_s)};
  if (seed.stolen && *seed.stolen > 0.03)
    report.notes.push_back(fmt::format(
        "Other programs took {:.0f} % of the first core while jobs ran: the figures are disturbed.",
        *seed.stolen * 100));
  return report;
}

std::string ReportPath(const Flags& flags, const Stage& stage, uint64_t seed) {
  fs::path path = flags.report.empty() ? stage.state / "report.html" : fs::path(flags.report);
  if (flags.seeds.size() > 1)
    path.replace_filename(
        fmt::format("{}-seed{}{}", path.stem().string(), seed, path.extension().string()));
  return fs::absolute(path).string();
}

Result<SeedResult> RunSeed(const Flags& flags, const Stage& stage, uint64_t seed) {
  SeedResult result;
  result.seed = seed;
  HASE_ASSIGN_OR_RETURN(auto models,
                        live::InternModels(PairsAsJobs(stage.quick), stage.state, true));
  HASE_ASSIGN_OR_RETURN(
      const auto predicting,
      apps::Predicting::Make(models.library.get(), stage.cluster.types, stage.samples));
  const latency::Estimator& estimator = predicting->predictor();
  const DeviceTypeId fastest = stage.cluster.devices[0].type;
  std::string why_not;
  result.jobs = live::DrawDemoJobs(seed, stage.quick, [&](const live::Pair& pair) {
    const auto id = *models.table.Find({std::string(pair.model), std::nullopt});
    const auto* estimate = estimator.Find(id, fastest, pair.batch);
    if (!estimate) {
      why_not = estimator.WhyNot(id, fastest, pair.batch);
      return live::PairTime{.batch_s = 1, .load_s = 1};
    }
    return live::PairTime{.batch_s = estimate->latency_s, .load_s = estimate->load_s};
  });
  if (!why_not.empty()) return Unavailable("a model cannot be predicted: " + why_not);
  for (const auto& job : result.jobs)
    result.inputs.push_back({.job = job, .model = *models.table.Find({job.model, std::nullopt})});
  stage.Say(fmt::format("\n  2  Run {} jobs (seed {}) for real: first round-robin, then hase.\n",
                        result.jobs.size(), seed));
  live::TrueTimes truth(stage.cluster, estimator);
  truth.Add(stage.samples, models.table);
  for (const char* policy : {"round-robin", "hase"}) {
    HASE_ASSIGN_OR_RETURN(Act act, Perform(stage, models, estimator, result, policy));
    truth.Add(act.result.records);
    result.stolen = std::max(result.stolen, live::StolenTime(stage.cluster, act.result.records));
    const auto points = measurement::PredictionPoints(act.result.outcome);
    result.points.insert(result.points.end(), points.begin(), points.end());
    result.acts.push_back(std::move(act));
    stage.Say("");
  }
  const auto bound = truth.MakespanBound(result.inputs);
  if (!bound) return Unavailable("no lower bound: a job's time is not known on any device");
  result.bound_s = *bound;
  result.measured_part = truth.MeasuredPart(result.inputs);
  result.least_over_load = LeastOverLoad(truth, result.inputs, stage.cluster);
  result.report = ReportPath(flags, stage, seed);
  HASE_RETURN_IF_ERROR(measurement::WriteReport(result.report, MakeReport(stage, result)));
  return result;
}

json SeedJson(const SeedResult& seed, bool quick) {
  const auto profiled = ProfiledPairs(quick);
  const auto unprofiled =
      std::ranges::count_if(seed.jobs, [&](const auto& job) { return !profiled(job); });
  json out = {{"seed", seed.seed},
              {"jobs", seed.jobs.size()},
              {"jobs_unprofiled", unprofiled},
              {"lower_bound_s", seed.bound_s},
              {"lower_bound_measured_part", seed.measured_part},
              {"least_compute_over_load", seed.least_over_load},
              {"round_robin_makespan_s", seed.makespan(0)},
              {"hase_makespan_s", seed.makespan(1)},
              {"reduction", 1 - seed.makespan(1) / seed.makespan(0)},
              {"closed_gap", seed.gap() ? json(*seed.gap()) : json(nullptr)},
              {"engine_processor_s", seed.acts[1].result.engine_processor_s},
              {"stolen_time", seed.stolen ? json(*seed.stolen) : json(nullptr)},
              {"report", seed.report}};
  live::PutErrors(live::ErrorsOf(seed.points, seed.inputs, profiled), out);
  return out;
}

json AllJson(const Stage& stage, const std::vector<SeedResult>& seeds) {
  json out = {{"models", json::array()}, {"devices", json::array()}, {"seeds", json::array()}};
  std::vector<std::string> models;
  for (const live::Pair& pair : live::DemoPairs(stage.quick)) models.emplace_back(pair.model);
  std::ranges::sort(models);
  models.erase(std::unique(models.begin(), models.end()), models.end());
  out["models"] = models;
  for (size_t d = 0; d < stage.cluster.devices.size(); ++d) {
    const auto& device = stage.cluster.devices[d];
    out["devices"].push_back({{"name", device.name},
                              {"type", stage.cluster.types[device.type.index()].name},
                              {"enforcement", stage.enforcement[d]}});
  }
  for (const SeedResult& seed : seeds) out["seeds"].push_back(SeedJson(seed, stage.quick));
  // Means over the seeds; errors over the jobs of all seeds together.
  for (const char* key :
       {"lower_bound_s", "round_robin_makespan_s", "hase_makespan_s", "reduction", "closed_gap"}) {
    double sum = 0;
    int known = 0;
    for (const json& seed : out["seeds"]) {
      if (seed[key].is_null()) continue;
      sum += seed[key].get<double>();
      ++known;
    }
    out[key] = known > 0 ? json(sum / known) : json(nullptr);
  }
  std::vector<measurement::PredictionPoint> points;
  std::vector<execution::JobInput> inputs;
  for (const SeedResult& seed : seeds) {
    for (auto point : seed.points) {
      point.job = JobId(point.job.index() + static_cast<uint32_t>(inputs.size()));
      points.push_back(point);
    }
    inputs.insert(inputs.end(), seed.inputs.begin(), seed.inputs.end());
  }
  live::PutErrors(live::ErrorsOf(points, inputs, ProfiledPairs(stage.quick)), out);
  out["report"] = seeds.front().report;
  return out;
}

void PrintBars(const json& all) {
  const double longest =
      std::max(all["round_robin_makespan_s"].get<double>(), all["hase_makespan_s"].get<double>());
  const auto bar = [&](const char* name, const char* key, const char* note) {
    const double seconds = all[key];
    fmt::print("  {:<12} {} {:7.1f} s  {}\n", name, live::Bar(seconds / longest, 40), seconds,
               note);
  };
  fmt::print("\n");
  bar("round-robin", "round_robin_makespan_s", "");
  bar("hase", "hase_makespan_s", "");
  bar("lower bound", "lower_bound_s", "from measured solo times");
  const auto percent = [&](const char* key) {
    return all[key].is_null() ? std::string("-")
                              : fmt::format("{:.1f} %", all[key].get<double>() * 100);
  };
  fmt::print("\n  hase ends {} earlier and closes {} of the gap to the bound.\n",
             percent("reduction"), percent("closed_gap"));
  fmt::print(
      "  Predicted durations were off by {} (median), by {} where the pair had never\n"
      "  been profiled; loading times by {}.\n",
      percent("prediction_median_ape"), percent("prediction_median_ape_unprofiled"),
      percent("load_median_ape"));
  for (const json& seed : all["seeds"]) {
    if (all["seeds"].size() > 1)
      fmt::print("\n  seed {:<4} {:.1f} s → {:.1f} s, bound {:.1f} s, gap closed {}",
                 seed["seed"].get<uint64_t>(), seed["round_robin_makespan_s"].get<double>(),
                 seed["hase_makespan_s"].get<double>(), seed["lower_bound_s"].get<double>(),
                 seed["closed_gap"].is_null()
                     ? "-"
                     : fmt::format("{:.0f} %", seed["closed_gap"].get<double>() * 100));
    if (!seed["stolen_time"].is_null() && seed["stolen_time"].get<double>() > 0.03)
      fmt::print(
          "\n  Other programs took {:.0f} % of the first core meanwhile: these figures are "
          "disturbed.",
          seed["stolen_time"].get<double>() * 100);
    fmt::print("\n  Report: {}\n", seed["report"].get<std::string>());
  }
}

Result<int> RunDemo(const Flags& flags) {
  if (flags.seeds.empty()) return Usage("--seeds needs at least one number");
  HASE_ASSIGN_OR_RETURN(const Stage stage, SetTheStage(flags));
  std::vector<SeedResult> seeds;
  for (const uint64_t seed : flags.seeds) {
    HASE_ASSIGN_OR_RETURN(SeedResult result, RunSeed(flags, stage, seed));
    seeds.push_back(std::move(result));
  }
  const json all = AllJson(stage, seeds);
  if (flags.as_json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    PrintBars(all);
  }
  return 0;
}

}  // namespace

Action SetUpDemo(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--seeds", flags->seeds, "Seeds; each draws its own jobs")
      ->delimiter(',')
      ->check(NoMinus());
  command.add_option("--state", flags->state,
                     "State folder; the demo keeps to its sub-folder demo/");
  command.add_option("--report", flags->report, "Write the HTML report to this file");
  command.add_flag("--quick", flags->quick,
                   "Fewer and smaller jobs: half a minute, for a first look");
  command.add_flag("--json", flags->as_json, "Print JSON");
  return [flags] { return RunDemo(*flags); };
}

}  // namespace hase::cli

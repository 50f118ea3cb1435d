// hase run: a queue of jobs on this machine, for real, under one policy after another.
//
// The accepted jobs and every step are in STATE/hase.db before they happen; --resume goes on with
// a queue whose run was killed, from each job's last finished chunk.
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <memory>

#include "apps/cli/commands.h"
#include "apps/live/accepted.h"
#include "apps/live/figures.h"
#include "apps/live/live_run.h"
#include "apps/live/setting.h"
#include "apps/live/true_times.h"
#include "apps/predicting.h"
#include "base/file.h"
#include "base/paths.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "execution/event_log.h"
#include "latency/sample_store.h"
#include "latency/table_estimator.h"
#include "measurement/store.h"
#include "placement/policy.h"
#include "workload/reader.h"

namespace hase::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Flags {
  std::string cluster, jobs, state, report, estimates, events;
  std::vector<std::string> policies = {"hase"};
  bool resume = false, discard = false, as_json = false;
};

struct Queue {
  cluster::Cluster cluster;
  std::vector<workload::Job> jobs;
  live::Models models;
  std::unique_ptr<apps::Predicting> predicting;    // one of these two
  std::unique_ptr<latency::TableEstimator> table;  // (from --estimates)
  const latency::Estimator& estimator() const {
    if (table) return *table;
    return predicting->predictor();
  }
  std::vector<latency::Sample> samples;  // measured before
};

// A queue that has not ended is not thrown away unasked.
Status MayReplace(const Flags& flags, const std::vector<measurement::StoredRun>& runs) {
  const bool open = std::ranges::any_of(runs, [](const auto& run) { return !run.done; });
  if (!open || flags.discard) return {};
  return Usage(
      "the state folder holds a queue that has not ended: --resume goes on with it, "
      "--discard forgets it");
}

Result<live::Accepted> FromFiles(const Flags& flags) {
  if (flags.cluster.empty() || flags.jobs.empty())
    return Usage("needs --cluster FILE and --jobs FILE (or --resume)");
  for (const std::string& policy : flags.policies)
    HASE_RETURN_IF_ERROR(placement::MakePolicy(policy));
  return live::AcceptFiles(flags.cluster, flags.jobs, flags.estimates);
}

// All that can be wrong with a queue shows here, before anything is kept or run.
Result<Queue> Open(const live::Accepted& accepted, const fs::path& state,
                   const std::string& jobs_file) {
  Queue queue;
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  const cluster::DeviceSpec cpu = cluster::CpuSpec(cluster::DetectCpu());
  HASE_ASSIGN_OR_RETURN(queue.cluster, cluster::ParseCluster(accepted.cluster_name,
                                                             accepted.cluster, catalogue, cpu));
  HASE_RETURN_IF_ERROR(live::CheckDevices(queue.cluster));
  HASE_ASSIGN_OR_RETURN(queue.jobs, workload::ParseJobsCsv("the accepted jobs", accepted.jobs));
  const std::string& estimates = accepted.estimates;
  HASE_ASSIGN_OR_RETURN(queue.models,
                        live::InternModels(queue.jobs, state, estimates.empty(), jobs_file));
  HASE_ASSIGN_OR_RETURN(queue.samples, live::ReadMeasured(state, queue.cluster.types));
  if (estimates.empty()) {
    HASE_ASSIGN_OR_RETURN(
        queue.predicting,
        apps::Predicting::Make(queue.models.library.get(), queue.cluster.types, queue.samples));
    for (const auto& note : queue.predicting->notes()) fmt::print(stderr, "hase run: {}\n", note);
  } else {
    HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(estimates));
    HASE_ASSIGN_OR_RETURN(
        auto table,
        latency::TableEstimator::Parse(estimates, text, queue.models.table, queue.cluster.types));
    queue.table = std::make_unique<latency::TableEstimator>(std::move(table));
  }
  return queue;
}

// Finished jobs teach the predictor: their whole-model times, as samples of source "run".
Status Learn(const Queue& queue, const live::LiveResult& result, const fs::path& state) {
  std::vector<latency::Sample> samples;
  for (const auto& record : result.records) {
    if (record.share != kWholeDevice || record.chunks.empty()) continue;
    const auto& ref = queue.models.table[record.model];
    const auto& device = queue.cluster.devices[record.device.index()];
    const auto& type = queue.cluster.types[device.type.index()];
    latency::Sample sample;
    sample.kernel.op = "Model";
    sample.kernel.precision = ref.precision;
    sample.model = ref.name;
    sample.whole_model = true;
    sample.batch = record.batch;
    sample.device = type.name;
    sample.runtime = type.runtime;
    sample.source = "run";
    Nanos busy;
    sample.repeats = 0;
    for (const auto& chunk : record.chunks) {
      busy += chunk.busy;
      sample.repeats += chunk.batches;
    }
    sample.latency_us = ToMicros(busy) / static_cast<double>(std::max<int64_t>(1, sample.repeats));
    sample.memory_load = record.loaded.peak;
    sample.memory_run = record.peak_run;
    sample.load_time = record.loaded.load;
    samples.push_back(std::move(sample));
  }
  HASE_ASSIGN_OR_RETURN(auto store,
                        latency::SampleStore::Open(state / "samples.db", live::MachineName()));
  return store.Append(samples);
}

struct Done {
  json figures;                            // an entry of "policies", with "failed" and "rejected"
  std::optional<live::LiveResult> result;  // nullopt: finished in an earlier call
};

// Runs (or goes on with) one policy's part of the queue.
Result<Done> RunPolicy(const measurement::StoredRun& run, const Queue& queue,
                       measurement::Store& store, const fs::path& state,
                       const live::Profiled& profiled) {
  HASE_ASSIGN_OR_RETURN(const auto entries, store.Entries(run.id));
  const auto before = execution::ProgressOf(entries);
  std::vector<execution::JobInput> inputs = queue.models.inputs;
  for (auto& input : inputs) {
    const auto known = before.find(input.job.job_id);
    if (known == before.end()) continue;
    input.inputs_done = known->second.inputs_done;
    input.over = known->second.over;
  }
  const auto journal = store.JournalOf(run.id);
  live::Progress progress(run.policy, queue.cluster, queue.jobs);
  const Nanos elapsed = entries.empty() ? kNoTime : entries.back().time;
  Done done;
  HASE_ASSIGN_OR_RETURN(done.result, live::Run({.cluster = queue.cluster,
                                                .jobs = inputs,
                                                .models = queue.models.files,
                                                .estimator = queue.estimator(),
                                                .policy = run.policy,
                                                .journal = *journal,
                                                .elapsed = elapsed,
                                                .progress = &progress}));
  progress.Finish();
  const auto& outcome = done.result->outcome;
  auto metrics = measurement::ComputeMetrics(outcome, queue.cluster.devices.size());
  if (!entries.empty()) {
    // The makespan of the whole, not of what was left; and the jobs that had ended before.
    HASE_ASSIGN_OR_RETURN(const auto all, store.Entries(run.id));
    metrics.makespan_s = ToSeconds(all.back().time - all.front().time);
    metrics.finished = metrics.failed = metrics.rejected = 0;
    for (const auto& entry : all) {
      metrics.finished += entry.kind == "finished" && entry.why != "part";
      metrics.failed += entry.kind == "failed" && entry.why.starts_with("for good");
      metrics.rejected += entry.kind == "rejected";
    }
  }
  done.figures = live::PolicyJson(run.policy, metrics, std::nullopt);
  live::PutErrors(
      live::ErrorsOf(measurement::PredictionPoints(outcome), queue.models.inputs, profiled),
      done.figures);
  json failures = json::array();
  for (size_t j = 0; j < outcome.jobs.size(); ++j)
    if (!outcome.jobs[j].why.empty())
      failures.push_back({{"job", queue.jobs[j].job_id}, {"why", outcome.jobs[j].why}});
  done.figures["failures"] = std::move(failures);
  HASE_RETURN_IF_ERROR(Learn(queue, *done.result, state));
  HASE_RETURN_IF_ERROR(store.EndRun(run.id, done.figures.dump()));
  return done;
}

void PrintTable(const json& all) {
  fmt::print("{:<14} {:>10} {:>10} {:>11} {:>10} {:>9} {:>9}\n", "policy", "makespan", "gap closed",
             "mean compl.", "p99 wait", "finished", "pred. err");
  for (const json& p : all["policies"]) {
    const auto fraction = [&](const char* key) {
      return p[key].is_null() ? std::string("-")
                              : fmt::format("{:.1f} %", p[key].get<double>() * 100);
    };
    fmt::print("{:<14} {:>8.2f} s {:>10} {:>9.2f} s {:>8.2f} s {:>5}/{:<3} {:>9}\n",
               p["name"].get<std::string>(), p["makespan_s"].get<double>(), fraction("closed_gap"),
               p["mean_completion_s"].get<double>(), p["p99_wait_s"].get<double>(),
               p["finished"].get<int>(), p["jobs"].get<int>(), fraction("prediction_median_ape"));
    for (const json& failure : p["failures"])
      fmt::print("  {}: {}\n", failure["job"].get<std::string>(),
                 failure["why"].get<std::string>());
  }
  if (!all["lower_bound_s"].is_null())
    fmt::print("Lower bound from measured solo times: {:.2f} s.\n",
               all["lower_bound_s"].get<double>());
}

// Bound and closed gaps over all policies, from the measurements of those that ran now.
void PutBound(const Queue& queue, const std::vector<Done>& runs, json& all) {
  live::TrueTimes truth(queue.cluster, queue.estimator());
  truth.Add(queue.samples, queue.models.table);
  for (const Done& run : runs)
    if (run.result) truth.Add(run.result->records);
  const auto bound = truth.MakespanBound(queue.models.inputs);
  all["lower_bound_s"] = bound ? json(*bound) : json(nullptr);
  std::optional<double> round_robin;
  for (const Done& run : runs)
    if (run.figures["name"] == "round-robin") round_robin = run.figures["makespan_s"];
  for (const Done& run : runs) {
    json figures = run.figures;
    if (bound && round_robin) {
      const auto gap = measurement::ClosedGap(*round_robin, figures["makespan_s"], *bound);
      figures["closed_gap"] = gap ? json(*gap) : json(nullptr);
    }
    all["policies"].push_back(std::move(figures));
  }
}

Status Report(const Flags& flags, const Queue& queue, const std::vector<Done>& runs,
              const json& all, const live::Profiled& profiled) {
  measurement::Report report;
  report.title = "HASE run";
  report.subtitle = fmt::format("{} jobs on {} devices of this machine ({})", queue.jobs.size(),
                                queue.cluster.devices.size(), live::MachineName());
  if (!all["lower_bound_s"].is_null()) report.lower_bound_s = all["lower_bound_s"].get<double>();
  report.prediction_note =
      "One point per run and term: the work after loading, and loading. Solo times; dashed lines "
      "are 20 % off.";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].result) {
      report.notes.push_back(runs[i].figures["name"].get<std::string>() +
                             " finished in an earlier call and has no chart here.");
      continue;
    }
    const std::string name = runs[i].figures["name"];
    const auto& result = *runs[i].result;
    report.devices = live::Devices(queue.cluster, result.enforcement);
    auto policy = measurement::PolicyOf(name, result.outcome, queue.jobs, queue.cluster);
    const json& figures = all["policies"][i];
    policy.makespan_s = figures["makespan_s"];
    if (!figures["closed_gap"].is_null()) policy.closed_gap = figures["closed_gap"].get<double>();
    report.cards.push_back({fmt::format("{:.1f} s", policy.makespan_s), "makespan, " + name});
    report.policies.push_back(std::move(policy));
    live::AddPoints(name, result.outcome, queue.models.inputs, queue.cluster, profiled, report);
    report.decisions.insert(report.decisions.end(), result.decisions.begin(),
                            result.decisions.end());
  }
  return measurement::WriteReport(flags.report, report);
}

Status WriteEvents(const std::string& path, measurement::Store& store,
                   const std::vector<measurement::StoredRun>& runs) {
  std::string text;
  for (const auto& run : runs) {
    HASE_ASSIGN_OR_RETURN(const auto entries, store.Entries(run.id));
    for (const auto& entry : entries) text += execution::EventLine(entry) + "\n";
  }
  return WriteFileAtomically(path, text);
}

// --discard without a queue to run: only forgets.
Result<int> Discard(const std::vector<measurement::StoredRun>& runs, measurement::Store& store) {
  const bool open = std::ranges::any_of(runs, [](const auto& run) { return !run.done; });
  if (!open) return Usage("the state folder holds no queue that has not ended");
  HASE_RETURN_IF_ERROR(store.ForgetRuns());
  return 0;
}

// What EndRun was given, in an earlier call.
Result<json> FiguresOf(const measurement::StoredRun& run, const fs::path& state) {
  json figures = json::parse(run.result, nullptr, false);
  const auto number = [&](const char* key) {
    const auto at = figures.find(key);
    return at != figures.end() && at->is_number();
  };
  if (figures.is_object() && figures.value("name", json()).is_string() && number("makespan_s") &&
      number("mean_completion_s") && number("p99_wait_s") && number("finished") &&
      number("failed") && number("rejected") && number("jobs"))
    return figures;
  return Invalid(fmt::format("{}: the result of run {} ({}) is damaged; start the queue anew",
                             (state / "hase.db").string(), run.id, run.policy));
}

// Every step is in the state folder before it happens, and workers end with us: an interrupted run
// needs no tidying, only to say how it goes on.
std::string last_words;
void SayHowToGoOn(int) {
  [[maybe_unused]] const auto written = ::write(2, last_words.data(), last_words.size());
  _exit(130);
}

Result<int> RunQueue(const Flags& flags) {
  for (const std::string& path : {flags.report, flags.events})
    if (!path.empty()) HASE_RETURN_IF_ERROR(CanWrite(path));
  HASE_ASSIGN_OR_RETURN(const fs::path state, StateDir(flags.state));
  HASE_ASSIGN_OR_RETURN(const auto store, measurement::Store::Open(state));
  HASE_ASSIGN_OR_RETURN(const auto before, store->Runs());
  if (flags.discard && flags.cluster.empty() && flags.jobs.empty()) return Discard(before, *store);
  if (!flags.resume) HASE_RETURN_IF_ERROR(MayReplace(flags, before));
  HASE_ASSIGN_OR_RETURN(const live::Accepted accepted,
                        flags.resume ? live::Recall(*store) : FromFiles(flags));
  HASE_ASSIGN_OR_RETURN(const Queue queue, Open(accepted, state, flags.resume ? "" : flags.jobs));
  if (!flags.resume) HASE_RETURN_IF_ERROR(live::Keep(accepted, flags.policies, *store));
  const live::Profiled profiled = [&](const workload::Job& job) {
    return std::ranges::any_of(queue.samples, [&](const latency::Sample& sample) {
      return sample.whole_model && sample.model == job.model && sample.batch == job.batch;
    });
  };
  HASE_ASSIGN_OR_RETURN(const auto stored, store->Runs());
  last_words = fmt::format(
      "\nhase run: interrupted; hase run --resume --state {} goes on with it\n", state.string());
  std::signal(SIGINT, SayHowToGoOn);
  std::signal(SIGTERM, SayHowToGoOn);
  std::vector<Done> runs;
  for (const auto& run : stored) {
    if (run.done) {
      HASE_ASSIGN_OR_RETURN(json figures, FiguresOf(run, state));
      runs.push_back({.figures = std::move(figures), .result = std::nullopt});
      continue;
    }
    HASE_ASSIGN_OR_RETURN(Done done, RunPolicy(run, queue, *store, state, profiled));
    runs.push_back(std::move(done));
  }
  json all = {{"world", "live"}, {"policies", json::array()}};
  PutBound(queue, runs, all);
  if (!flags.report.empty()) HASE_RETURN_IF_ERROR(Report(flags, queue, runs, all, profiled));
  if (!flags.events.empty()) HASE_RETURN_IF_ERROR(WriteEvents(flags.events, *store, stored));
  if (flags.as_json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    PrintTable(all);
    if (!flags.report.empty()) fmt::print("Report: {}\n", flags.report);
  }
  int failed = 0, rejected = 0;
  for (const json& policy : all["policies"]) {
    failed += policy["failed"].get<int>();
    rejected += policy["rejected"].get<int>();
  }
  return rejected > 0 ? 3 : failed > 0 ? 1 : 0;
}

}  // namespace

Action SetUpRun(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--cluster", flags->cluster, "Cluster file (YAML) of this machine's devices");
  command.add_option("--jobs", flags->jobs, "Jobs (CSV or JSON Lines)");
  command.add_option("--policy", flags->policies, "Policies, one after another")->delimiter(',');
  command.add_option("--state", flags->state, "State folder");
  command.add_option("--estimates", flags->estimates, "Estimates (CSV) in place of the predictor");
  command.add_option("--report", flags->report, "Write an HTML report to this file");
  command.add_option("--events", flags->events, "Write the event log (JSON Lines) to this file");
  auto* resume =
      command.add_flag("--resume", flags->resume, "Go on with the queue of the state folder");
  command.add_flag("--discard", flags->discard, "Forget a queue that has not ended")
      ->excludes(resume);
  command.add_flag("--json", flags->as_json, "Print JSON");
  return [flags] { return RunQueue(*flags); };
}

}  // namespace hase::cli

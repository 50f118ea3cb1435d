// hase simulate: the same engine and policies as `hase run`, on a simulated clock in one of three
// worlds. Prints each policy's figures beside a lower bound that no schedule can beat.
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/simulate_flags.h"
#include "apps/decision_file.h"
#include "apps/sim_bounds.h"
#include "apps/sim_inputs.h"
#include "apps/sim_report.h"
#include "apps/snapshot.h"
#include "base/file.h"
#include "execution/event_log.h"
#include "measurement/metrics.h"
#include "placement/policy.h"

namespace hase::cli {
namespace {

using Json = nlohmann::ordered_json;
using measurement::Metrics;

using Flags = SimulateFlags;

// What is measured for closed_gap: makespan offline and at load >= 1, mean flow time below.
struct Setting {
  double load = 0;  // 0 = offline
  bool by_flow() const { return load > 0 && load < 1; }
  std::optional<apps::Bounds> bounds;  // none where faults were injected: they change the truth
  double bound() const { return by_flow() ? bounds->mean_flow_s : bounds->makespan_s; }
  double value(const Metrics& m) const { return by_flow() ? m.mean_completion_s : m.makespan_s; }
};

// The engine starts a job again at most once after running out of memory.
constexpr uint64_t kMostStarts = 2;

struct PolicyResult {
  std::string name;
  Metrics metrics;
  std::optional<double> closed_gap;
  std::vector<std::string> rejected;  // the first few: "job: why; nearest: …"
};
constexpr size_t kRejectedShown = 3;

struct SeedResult {
  uint64_t seed = 0;
  Setting setting;
  size_t devices = 0, jobs = 0;
  std::vector<PolicyResult> policies;
  bool infeasible = false;
};

// Several policies into one file: NAME.jsonl becomes NAME.POLICY.jsonl.
std::string FileFor(const std::string& path, const std::string& policy, bool alone) {
  if (alone) return path;
  const size_t dot = path.find_last_of('.');
  const size_t cut =
      dot == std::string::npos || dot < path.find_last_of('/') + 1 ? path.size() : dot;
  return path.substr(0, cut) + "." + policy + path.substr(cut);
}

std::vector<std::string> Rejected(const execution::Outcome& outcome,
                                  const execution::SimCase& sim) {
  std::vector<std::string> lines;
  for (size_t j = 0; j < outcome.jobs.size() && lines.size() < kRejectedShown; ++j) {
    const auto& job = outcome.jobs[j];
    if (job.ending != execution::Ending::kRejected) continue;
    lines.push_back(fmt::format("{}: {}", sim.jobs[j].job.job_id, job.why));
    if (!job.nearest_feasible.empty()) lines.back() += "; nearest: " + job.nearest_feasible;
  }
  return lines;
}

Result<PolicyResult> RunPolicy(const Flags& flags, const execution::SimCase& sim,
                               const std::string& name, bool alone, apps::SimReport& report,
                               SeedResult& result) {
  HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy(name));
  execution::TextJournal text;
  execution::NullJournal nothing;
  execution::Journal& journal = flags.events.empty() ? static_cast<execution::Journal&>(nothing)
                                                     : static_cast<execution::Journal&>(text);
  apps::DecisionWriter decisions(sim.jobs, sim.cluster);
  apps::SnapshotPolicy snapshot(*policy, flags.when, flags.sim, name, sim);
  const bool snapshots = !flags.snapshot.empty();
  auto sink = report.SinkFor(name, sim);
  apps::DecisionTee tee(flags.decisions.empty() ? nullptr : &decisions, sink.get());
  HASE_ASSIGN_OR_RETURN(const auto outcome,
                        execution::RunCase(sim, snapshots ? snapshot : *policy, journal,
                                           tee.empty() ? nullptr : &tee));
  if (snapshots && snapshot.text().empty()) {
    return Invalid(
        fmt::format("--snapshot-at {}: {} has no such decision", flags.snapshot_at, name));
  }
  if (snapshots) {
    HASE_RETURN_IF_ERROR(
        WriteFileAtomically(FileFor(flags.snapshot, name, alone), snapshot.text()));
  }
  result.infeasible = result.infeasible || outcome.infeasible;
  if (!flags.events.empty()) {
    HASE_RETURN_IF_ERROR(WriteFileAtomically(FileFor(flags.events, name, alone), text.text()));
  }
  if (!flags.decisions.empty()) {
    HASE_RETURN_IF_ERROR(
        WriteFileAtomically(FileFor(flags.decisions, name, alone), decisions.text()));
  }
  report.Add(name, sim, outcome, std::move(sink));
  return PolicyResult{name, measurement::ComputeMetrics(outcome, sim.cluster.devices.size()),
                      std::nullopt, Rejected(outcome, sim)};
}

Result<SeedResult> RunSeed(const Flags& flags, uint64_t seed, apps::SimReport& report) {
  HASE_ASSIGN_OR_RETURN(const auto sim, apps::BuildSimCase(flags.sim, seed));
  report.BeginSeed();
  SeedResult result;
  result.seed = seed;
  result.devices = sim->cluster.devices.size();
  result.jobs = sim->jobs.size();
  result.setting.load = apps::TrueLoad(*sim, apps::SimTruth(*sim));
  std::optional<double> round_robin;
  bool comparable = true;  // round-robin finished all jobs
  const bool alone = flags.policies.size() == 1;
  for (const auto& name : flags.policies) {
    HASE_ASSIGN_OR_RETURN(auto run, RunPolicy(flags, *sim, name, alone, report, result));
    const Metrics& m = run.metrics;
    if (name == "round-robin") {
      round_robin = result.setting.value(m);
      comparable = m.finished == m.jobs;
    }
    result.policies.push_back(std::move(run));
  }
  if (!sim->faults.empty()) return result;
  const bool retried = std::ranges::any_of(
      result.policies, [](const auto& p) { return p.metrics.out_of_memory > 0; });
  result.setting.bounds =
      apps::LowerBounds(*sim, apps::SimTruth(*sim, 0.01, retried ? kMostStarts : 1));
  if (!round_robin) {  // the yardstick of closed_gap, not printed
    HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy("round-robin"));
    execution::NullJournal nothing;
    HASE_ASSIGN_OR_RETURN(const auto outcome, execution::RunCase(*sim, *policy, nothing));
    const Metrics m = measurement::ComputeMetrics(outcome, sim->cluster.devices.size());
    round_robin = result.setting.value(m);
    comparable = m.finished == m.jobs;
  }
  if (!comparable) return result;
  for (auto& p : result.policies) {
    if (p.metrics.finished < p.metrics.jobs) continue;
    p.closed_gap = measurement::ClosedGap(*round_robin, result.setting.value(p.metrics),
                                          result.setting.bound());
    report.SetGap(p.name, p.closed_gap);
  }
  return result;
}

Json PolicyJson(const PolicyResult& p) {
  const Metrics& m = p.metrics;
  Json out;
  out["name"] = p.name;
  out["makespan_s"] = m.makespan_s;
  out["closed_gap"] = p.closed_gap ? Json(*p.closed_gap) : Json(nullptr);
  out["mean_completion_s"] = m.mean_completion_s;
  out["p99_completion_s"] = m.p99_completion_s;
  out["mean_wait_s"] = m.mean_wait_s;
  out["p99_wait_s"] = m.p99_wait_s;
  out["utilisation"] = m.utilisation;
  out["deadline_miss"] = m.deadline_miss;
  out["decision_us"] = {
      {"p50", m.decision_p50_us}, {"p99", m.decision_p99_us}, {"max", m.decision_max_us}};
  out["oom"] = m.out_of_memory;
  out["promises"] = {{"made", m.promises_made},
                     {"kept", m.promises_kept},
                     {"promised_probability", m.promised_probability},
                     {"on_lost_devices", m.promises_on_lost_devices}};
  out["jobs"] = {{"finished", m.finished},
                 {"failed", m.failed},
                 {"rejected", m.rejected},
                 {"cancelled", m.cancelled}};
  out["events"] = m.events;
  out["backfilled"] = m.backfilled;
  out["overruns"] = m.overruns;
  out["prediction_mape"] = m.prediction_mape;
  return out;
}

Json SeedJson(const Flags& flags, const SeedResult& r) {
  const auto bound = [&](double apps::Bounds::* which) {
    return r.setting.bounds ? Json(*r.setting.bounds.*which) : Json(nullptr);
  };
  Json out;
  out["world"] = flags.sim.world;
  out["seed"] = r.seed;
  out["devices"] = r.devices;
  out["jobs"] = r.jobs;
  out["load"] = r.setting.load;
  out["lower_bound_s"] = bound(&apps::Bounds::makespan_s);
  out["resource_bound_s"] = bound(&apps::Bounds::resources_s);
  out["configuration_bound_s"] = bound(&apps::Bounds::configurations_s);
  out["mean_flow_bound_s"] = bound(&apps::Bounds::mean_flow_s);
  const auto& b = r.setting.bounds;
  out["largest_job_of_bound"] = b && b->makespan_s > 0 ? b->largest_job_s / b->makespan_s : 0;
  out["closed_gap_of"] = r.setting.by_flow() ? "mean_completion_s" : "makespan_s";
  out["policies"] = Json::array();
  for (const auto& p : r.policies) out["policies"].push_back(PolicyJson(p));
  return out;
}

// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
double StudentT(size_t degrees) {
  constexpr double kT[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                           2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                           2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return degrees == 0 ? 0 : degrees <= 30 ? kT[degrees - 1] : 1.96;
}

// Null of nothing.
Json Interval(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  const auto n = static_cast<double>(values.size());
  const double error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  return {{"mean", mean}, {"ci95", error * StudentT(values.size() - 1)}};
}

Json Summary(const std::vector<SeedResult>& results) {
  Json out = Json::array();
  for (size_t p = 0; p < results[0].policies.size(); ++p) {
    std::vector<double> gap, makespan, completion;
    for (const auto& r : results) {
      if (r.policies[p].closed_gap) gap.push_back(*r.policies[p].closed_gap);
      makespan.push_back(r.policies[p].metrics.makespan_s);
      completion.push_back(r.policies[p].metrics.mean_completion_s);
    }
    out.push_back({{"name", results[0].policies[p].name},
                   {"closed_gap", Interval(gap)},
                   {"makespan_s", Interval(makespan)},
                   {"mean_completion_s", Interval(completion)}});
  }
  return out;
}

std::vector<measurement::ReportSeeds> SeedTable(const std::vector<SeedResult>& results) {
  std::vector<measurement::ReportSeeds> table;
  for (const auto& line : Summary(results)) {
    const auto value = [&line](const char* key) {
      return measurement::ReportSeeds::Value{line[key]["mean"], line[key]["ci95"]};
    };
    measurement::ReportSeeds row;
    row.policy = line["name"];
    row.seeds = static_cast<int>(results.size());
    if (!line["closed_gap"].is_null()) row.closed_gap = value("closed_gap");
    row.makespan_s = value("makespan_s");
    row.completion_s = value("mean_completion_s");
    table.push_back(std::move(row));
  }
  return table;
}

// First column of a table of 80 columns; a longer name has a line to itself.
constexpr size_t kNameWidth = 16;
void PrintName(const std::string& name) {
  if (name.size() > kNameWidth) fmt::print("{}\n", name);
  fmt::print("{:<{}}", name.size() > kNameWidth ? "" : name, kNameWidth);
}

void PrintSummary(const std::vector<SeedResult>& results) {
  fmt::print("{} seeds, means with 95 % intervals\n", results.size());
  fmt::print("{:<{}} {:>20} {:>16} {:>20}\n", "policy", kNameWidth, "makespan s", "gap",
             "completion s");
  for (const auto& s : SeedTable(results)) {
    PrintName(s.policy);
    fmt::print(
        " {:>20} {:>16} {:>20}\n",
        fmt::format("{:.1f} ± {:.1f}", s.makespan_s.mean, s.makespan_s.ci95),
        s.closed_gap ? fmt::format("{:.3f} ± {:.3f}", s.closed_gap->mean, s.closed_gap->ci95) : "-",
        fmt::format("{:.1f} ± {:.1f}", s.completion_s.mean, s.completion_s.ci95));
  }
}

void PrintTable(const Flags& flags, const SeedResult& r) {
  const auto& bounds = r.setting.bounds;
  fmt::print("world {}, seed {}: {} jobs on {} devices, {}; {}\n", flags.sim.world, r.seed, r.jobs,
             r.devices,
             r.setting.load > 0 ? fmt::format("load {:.2f}", r.setting.load) : "all at once",
             bounds ? fmt::format("lower bound {:.1f} s", bounds->makespan_s)
                    : "no lower bound under faults");
  fmt::print("{:<{}} {:>10} {:>6} {:>10} {:>8} {:>5} {:>9} {:>9}\n", "policy", kNameWidth,
             "makespan s", "gap", "completion", "p99 wait", "util", "promises", "decide us");
  for (const auto& p : r.policies) {
    const Metrics& m = p.metrics;
    PrintName(p.name);
    fmt::print(" {:>10.1f} {:>6} {:>10.1f} {:>8.1f} {:>5.2f} {:>9} {:>9}\n", m.makespan_s,
               p.closed_gap ? fmt::format("{:.3f}", *p.closed_gap) : "-", m.mean_completion_s,
               m.p99_wait_s, m.utilisation, fmt::format("{}/{}", m.promises_kept, m.promises_made),
               fmt::format("{:.0f}/{:.0f}", m.decision_p50_us, m.decision_p99_us));
    if (m.failed + m.rejected > 0) {
      fmt::print("  {} failed, {} rejected, {} out of memory\n", m.failed, m.rejected,
                 m.out_of_memory);
    }
    for (const auto& line : p.rejected) fmt::print("  {}\n", line);
    if (static_cast<size_t>(m.rejected) > p.rejected.size()) {
      fmt::print("  … {} more\n", static_cast<size_t>(m.rejected) - p.rejected.size());
    }
  }
}

Result<int> Simulate(const Flags& flags) {
  std::vector<uint64_t> seeds = flags.seeds;
  if (seeds.empty()) seeds.push_back(flags.sim.seed);
  if (flags.policies.empty()) return Usage("--policy needs at least one name");
  apps::SimReport report(!flags.report.empty());
  std::vector<SeedResult> results;
  bool infeasible = false;
  for (const uint64_t seed : seeds) {
    HASE_ASSIGN_OR_RETURN(auto result, RunSeed(flags, seed, report));
    infeasible = infeasible || result.infeasible;
    if (isatty(2) && seeds.size() > 1) fmt::print(stderr, "\r\033[K");
    if (!flags.json) PrintTable(flags, result);
    results.push_back(std::move(result));
    if (isatty(2) && seeds.size() > 1) {
      fmt::print(stderr, "\r\033[K{} of {} seeds", results.size(), seeds.size());
    }
  }
  if (isatty(2) && seeds.size() > 1) fmt::print(stderr, "\r\033[K");
  if (flags.json && results.size() == 1) {
    fmt::print("{}\n", SeedJson(flags, results[0]).dump(1));
  } else if (flags.json) {
    Json out;
    out["world"] = flags.sim.world;
    out["runs"] = Json::array();
    for (const auto& r : results) out["runs"].push_back(SeedJson(flags, r));
    out["summary"] = Summary(results);
    fmt::print("{}\n", out.dump(1));
  }
  if (!flags.json && results.size() > 1) PrintSummary(results);
  if (!flags.report.empty()) {
    if (results.size() > 1) report.SetSeeds(SeedTable(results));
    const auto& bounds = results.back().setting.bounds;
    HASE_RETURN_IF_ERROR(report.Write(flags.report, flags.sim.world,
                                      bounds ? std::optional(bounds->makespan_s) : std::nullopt));
  }
  return infeasible ? 3 : 0;
}

}  // namespace

Action SetUpSimulate(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  AddSimulateFlags(command, *flags);
  return [flags, &command]() -> Result<int> {
    HASE_RETURN_IF_ERROR(CheckSimulateFlags(command, *flags));
    return Simulate(*flags);
  };
}

}  // namespace hase::cli

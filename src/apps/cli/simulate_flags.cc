#include "apps/cli/simulate_flags.h"

#include <fmt/core.h>

#include "apps/cli/command.h"
#include "placement/policy.h"

namespace hase::cli {
namespace {

constexpr const char* kGenerateHelp =
    "instead of --jobs: offline, poisson, bursty or diurnal, then any of these by comma:\n"
    "  jobs=500  how many\n"
    "  load=0.9  work arriving over the devices there are (not offline)\n"
    "  mean_s=60  device seconds of the mean job\n"
    "  tail=1.8  Pareto exponent of the sizes\n"
    "  largest=10  the largest job, in means\n"
    "  exclusive=0.14, gang=0.08, cut=0, deadline=0.1, urgent=0.05  parts of the jobs\n"
    "  batches=1|2|4|8|16|32|64  drawn evenly\n"
    "  models=NAME|NAME  in place of the zoo's";

std::string PolicyHelp() {
  std::string names;
  for (const auto& row : placement::Policies()) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return "by comma, options after a colon (hase:objective=completion); default round-robin,mct. "
         "Known: " +
         names;
}

}  // namespace

void AddSimulateFlags(CLI::App& command, SimulateFlags& flags) {
  apps::SimFlags& f = flags.sim;
  command.add_option("--cluster", f.cluster, "cluster.yaml, or openb's list of nodes (.csv)");
  command.add_option("--jobs", f.jobs, "jobs.csv, jobs.jsonl, or openb's list of tasks");
  command.add_option("--format", f.format, "of --jobs: auto (default) or openb");
  command.add_option("--load", flags.load, "openb: compress arrivals to this load");
  command.add_option("--types", f.types, "openb: YAML naming the undisclosed GPU types");
  command.add_option("--generate", f.generate, kGenerateHelp);
  command.add_option("--world", f.world, "W1 table, W2 residuals, W3 other law (default)");
  command.add_option("--seed", f.seed, "of the generator, the world and job errors (1)")
      ->check(NoMinus());
  command.add_option("--estimates", f.estimates, "estimates.csv in place of the predictor");
  command.add_option("--truth", f.truth, "W1: times.csv; without it the estimates are the truth");
  command.add_option("--slowdown", f.slowdown, "slowdown.csv of estimates and of W1");
  command.add_option("--residuals", f.residuals, "W2: residuals.csv");
  command.add_option("--error", f.error, "LO..HI: factor on each job's true time, log-uniform");
  command.add_option("--faults", f.faults, "YAML of what goes wrong (examples/faults.yaml)");
  command.add_option("--policy", flags.policies, PolicyHelp())->delimiter(';');
  command.add_option("--seeds", flags.seeds, "several seeds: 1,2,3")
      ->delimiter(',')
      ->check(NoMinus());
  command.add_option("--events", flags.events, "write the event log (JSON Lines)");
  command.add_option("--decisions", flags.decisions, "write decision records for `hase explain`");
  command.add_option("--snapshot", flags.snapshot,
                     "keep one decision with all it was made from, for `hase explain --state`");
  command.add_option("--snapshot-at", flags.snapshot_at,
                     "with --snapshot: the first decision at or after so many seconds (12.5), or "
                     "number #N (#0)");
  command.add_option("--report", flags.report, "write an HTML report");
  command.add_flag("--json", flags.json, "Print JSON");
}

Status CheckSimulateFlags(const CLI::App& command, SimulateFlags& flags) {
  if (flags.load && flags.sim.format != "openb") {
    return Usage("--load is read with --format openb only; with --generate say load=L");
  }
  if (flags.load && !(*flags.load >= 0.01 && *flags.load <= 100)) {
    return Usage(fmt::format("--load {:g}: between 0.01 and 100", *flags.load));
  }
  flags.sim.load = flags.load.value_or(0);
  if (command.count("--snapshot-at") > 0 && flags.snapshot.empty()) {
    return Usage("--snapshot-at needs --snapshot FILE");
  }
  flags.policies = apps::SplitPolicies(flags.policies);
  HASE_ASSIGN_OR_RETURN(flags.when, apps::ParseSnapshotWhen(flags.snapshot_at));
  if (!flags.seeds.empty() && !(flags.snapshot + flags.events + flags.decisions).empty()) {
    return Usage("--snapshot, --events and --decisions keep one run: give --seed, not --seeds");
  }
  return {};
}

}  // namespace hase::cli

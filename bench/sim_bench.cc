// sim_bench: events per second of the whole simulator (engine, policy, world W3, predictor) on
// 1,000 GPUs with about 200 jobs queued. A pilot run with everything at once says when jobs end;
// in the timed run as many jobs as the devices hold and `--queue` more are there at the start, and
// one arrives whenever one of the pilot ended. An event is an arrival, a model loaded, a chunk
// done, an end.
//
//   sim_bench [--policy SPEC] [--jobs N] [--queue N] [--cluster FILE]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "apps/sim_inputs.h"
#include "execution/event_log.h"
#include "measurement/metrics.h"

namespace hase {
namespace {

struct Flags {
  std::string policy = "hase";
  int64_t jobs = 6000;
  size_t queue = 200;
  std::string cluster = "bench/cluster-1000.yaml";
};

struct Timed {
  execution::Outcome outcome;
  double seconds = 0, queued = 0;
};

Result<Timed> Run(const execution::SimCase& sim, const std::string& spec) {
  HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy(spec));
  ManualClock clock;
  execution::Simulation simulation(*sim.world, sim.cluster, clock);
  execution::NullJournal journal;
  execution::Engine engine(sim.options, clock, simulation, simulation, *policy, *sim.estimator,
                           sim.cluster, sim.jobs, journal);
  Timed timed;
  double sum = 0;
  int64_t steps = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    HASE_ASSIGN_OR_RETURN(const bool more, engine.Step());
    sum += static_cast<double>(engine.View().queue.size());
    ++steps;
    if (!more) break;
  }
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  timed.queued = sum / static_cast<double>(steps);
  timed.outcome = engine.TakeOutcome();
  return timed;
}

Status Main(const Flags& flags) {
  apps::SimFlags sim_flags;
  sim_flags.cluster = flags.cluster;
  sim_flags.generate = fmt::format("offline,jobs={}", flags.jobs);
  HASE_ASSIGN_OR_RETURN(auto sim, apps::BuildSimCase(sim_flags, 1));
  HASE_ASSIGN_OR_RETURN(const Timed pilot, Run(*sim, flags.policy));
  std::vector<Nanos> ends;
  for (const auto& job : pilot.outcome.jobs) ends.push_back(job.end.value_or(Nanos(0)));
  std::sort(ends.begin(), ends.end());
  // What the devices held in the middle of the pilot, and the queue.
  const auto half = ends[ends.size() / 2];
  size_t running = 0;
  for (const auto& run : pilot.outcome.runs) running += run.started <= half && run.ended > half;
  const size_t first = running + flags.queue;
  for (size_t j = first; j < sim->jobs.size(); ++j) {
    auto& job = sim->jobs[j].job;
    const Nanos arrival = ends[j - first];
    if (job.deadline) *job.deadline += arrival - job.arrival;
    job.arrival = arrival;
  }
  HASE_ASSIGN_OR_RETURN(const Timed timed, Run(*sim, flags.policy));
  const auto m = measurement::ComputeMetrics(timed.outcome, sim->cluster.devices.size());
  fmt::print("policy {}: {} devices, {} jobs, {:.0f} queued on average\n", flags.policy,
             sim->cluster.devices.size(), sim->jobs.size(), timed.queued);
  fmt::print("{} events in {:.3f} s: {:.0f} events/s; {} decisions, p50 {:.1f} us, p99 {:.1f} us\n",
             m.events, timed.seconds, static_cast<double>(m.events) / timed.seconds, m.decisions,
             m.decision_p50_us, m.decision_p99_us);
  return {};
}

}  // namespace
}  // namespace hase

int main(int argc, char** argv) {
  hase::Flags flags;
  CLI::App app("Events per second of the whole simulator (docs/scheduler.md)", "sim_bench");
  app.add_option("--policy", flags.policy)->capture_default_str();
  app.add_option("--jobs", flags.jobs)->capture_default_str()->check(CLI::Range(10, 10'000'000));
  app.add_option("--queue", flags.queue, "Jobs waiting")->capture_default_str();
  app.add_option("--cluster", flags.cluster)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const auto status = hase::Main(flags); !status) {
    fmt::print(stderr, "sim_bench: {}\n", status.error().message);
    return 1;
  }
  return 0;
}

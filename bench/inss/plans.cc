// Throughput: plans of every policy at the greatest rates they find, judged by the request world.
#include "plans.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "placement/services/service_bound.h"
#include "placement/services/service_policies.h"
#include "tally.h"

namespace hase::bench {
namespace {

using serving::Arena;

struct Run {
  placement::ServicePlan plan;
  serving::Judgement judged;
  double took_ms = 0;
};

struct Requests {
  world::ArrivalPattern pattern;
  std::vector<double> trace;
};

Run PlanAndJudge(const placement::ServicePolicyRow& row, const Arena& arena,
                 const placement::ServiceView& view, uint64_t seed, double margin,
                 const Requests& requests) {
  Run run;
  const auto start = std::chrono::steady_clock::now();
  if (row.name == "inss") {
    placement::InssOptions options;
    options.margin = margin;
    run.plan = placement::InssPolicy(options).Decide(view);
  } else {
    run.plan = row.make(placement::ServiceObjective::kMaxThroughput)->Decide(view);
  }
  run.took_ms =
      1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.judged = arena.Judge(run.plan.instances,
                           serving::PlannedResponses(view, arena.model(), run.plan.instances), seed,
                           requests.pattern, requests.trace);
  return run;
}

void Detail(const Arena& arena, const placement::ServiceView& view, const Run& run) {
  if (run.judged.at_plan.services.empty()) return;  // somebody was left out: nobody was served
  for (size_t s = 0; s < view.services.size(); ++s) {
    const auto& world = run.judged.at_plan.services[s];
    double run_ms = 0, rate = 0;
    int instances = 0;
    std::string where;
    for (size_t i = 0; i < run.plan.instances.size(); ++i) {
      const auto& instance = run.plan.instances[i];
      if (instance.service.index() != s) continue;
      const auto l = serving::LatencyOf(view, arena.model(), run.plan.instances, i);
      run_ms += l.run_ms * instance.rate_rps;
      rate += instance.rate_rps;
      ++instances;
      where +=
          fmt::format(" {}:{}%b{}", arena.given().cluster.devices[instance.device.index()].name,
                      instance.share.value() / 10, instance.batch);
    }
    fmt::print(
        "   {:<22} {} inst, {:>6.0f}/s, p planned {:>6.1f} world {:>6.1f} of {:g} ms; run "
        "planned {:>5.1f} world {:>5.1f}; late {:.2f} %;{}\n",
        arena.given().services[s].name, instances, rate, run.judged.planned_ms[s],
        world.at_percentile_ms, view.services[s].slo_ms, run_ms / std::max(1e-9, rate),
        world.mean_run_ms, 100 * (1 - world.attainment), where);
  }
}

struct Summary {
  Means means;
  std::vector<double> errors;  // planned p99 against the world's, inss, signed
  std::map<std::string, Means> by_mix;
  int cases = 0, late = 0;  // inss above 1 % late
  double worst_late = 0;
  std::map<std::string, int> rival_late;
};

void OneCase(const std::string& name, const std::string& mix, const serving::LoadedCase& loaded,
             const RunOptions& options, const Requests& requests, Summary& sum) {
  Means here;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const Arena arena(loaded.given, WorldLaw(), static_cast<uint64_t>(seed), options.profiled);
    const auto view = arena.View();
    const placement::CapacityTable table(view, arena.model(), 0);
    const auto bound = placement::BoundOnFactor(table);
    double asked = 0;
    for (const auto& d : view.services) asked += d.rate_rps;
    if (seed == 1) fmt::print("{} ({})\n", name, Describe(loaded.given));
    for (const auto& row : placement::ServicePolicies()) {
      const std::string policy(row.name);
      const Run run = PlanAndJudge(row, arena, view, 100 + static_cast<uint64_t>(seed),
                                   options.margin, requests);
      const double late = run.judged.late_fraction();
      here.Add(policy, run.judged.throughput_rps());
      if (seed == 1)
        fmt::print(
            "  {:<12} {:>7.0f} planned, {:>7.0f} in the world, late {:>5.2f} %, {:>3.0f} % of "
            "the bound, {:.0f} ms\n",
            policy, run.judged.planned_rps, run.judged.throughput_rps(), 100 * late,
            bound ? 100 * run.judged.throughput_rps() / (asked * *bound) : 0, run.took_ms);
      if (policy != "inss") {
        sum.rival_late[policy] += late > 0.01;
        continue;
      }
      ++sum.cases;
      sum.late += late > 0.01;
      sum.worst_late = std::max(sum.worst_late, late);
      for (const double e : run.judged.response_error) sum.errors.push_back(e);
      if (bound) sum.means.Add("bound", run.judged.throughput_rps() / (asked * *bound));
      if (options.detail && seed == 1) Detail(arena, view, run);
    }
  }
  const double plain = std::max(here.Of("dedicated"), here.Of("equal-share"));
  if (plain >= 1e-3) {
    fmt::print("  inss / best plain {:.2f}", here.Of("inss") / plain);
    sum.means.Add("best plain", here.Of("inss") / plain);
  } else {
    fmt::print("  inss / best plain -");
  }
  for (const char* rival : {"dedicated", "equal-share", "gpulet", "igniter", "parvagpu"}) {
    if (here.Of(rival) < 1e-3) {  // served nobody: no ratio
      fmt::print(", {} -", rival);
      continue;
    }
    const double ratio = here.Of("inss") / here.Of(rival);
    fmt::print(", {} {:.2f}", rival, ratio);
    sum.means.Add(rival, ratio);
    sum.by_mix[mix].Add(rival, ratio);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Print(Summary& sum) {
  fmt::print("geometric means of inss against: best plain {:.3f}", sum.means.Of("best plain"));
  for (const char* rival : {"dedicated", "equal-share", "gpulet", "igniter", "parvagpu"})
    fmt::print(", {} {:.3f}", rival, sum.means.Of(rival));
  fmt::print("; fraction of the bound {:.3f}\n", sum.means.Of("bound"));
  for (auto& [mix, ratios] : sum.by_mix)
    for (const char* rival : {"dedicated", "equal-share", "gpulet", "igniter", "parvagpu"})
      if (ratios.Has(rival) && ratios.Of(rival) < 0.995)
        fmt::print("  loses {} to {}: {:.3f}\n", mix, rival, ratios.Of(rival));
  fmt::print("late above 1 % at the planned rate: {} of {} runs, worst {:.2f} %; rivals:", sum.late,
             sum.cases, 100 * sum.worst_late);
  for (const auto& [rival, late] : sum.rival_late) fmt::print(" {} {}", rival, late);
  std::vector<double> size;
  size_t within = 0, under = 0;
  for (const double e : sum.errors) {
    size.push_back(std::abs(e));
    within += std::abs(e) <= 0.15;
    under += e > 0.15;
  }
  std::sort(size.begin(), size.end());
  if (!size.empty())
    fmt::print(
        "\nplanned p99 against the world's: median error {:.1f} %, p90 {:.1f} %, {:.0f} % "
        "within 15 %, {:.0f} % planned too low by more\n",
        100 * size[size.size() / 2], 100 * size[size.size() * 9 / 10],
        100.0 * static_cast<double>(within) / static_cast<double>(size.size()),
        100.0 * static_cast<double>(under) / static_cast<double>(size.size()));
}

}  // namespace

int RunPlans(const RunOptions& options) {
  Summary sum;
  Requests requests{Must(world::ParseArrivalPattern(options.arrivals)), {}};
  if (requests.pattern == world::ArrivalPattern::kTrace)
    requests.trace = Must(world::ReadAzureTrace(options.trace));
  if (options.fresh > 0) {
    for (int k = 0; k < options.fresh; ++k) {
      const uint64_t seed = options.first + static_cast<uint64_t>(k);
      const auto name = fmt::format("fresh {}", seed);
      OneCase(name, name, DrawFresh(seed), options, requests, sum);
    }
  } else {
    for (const auto& name : CommittedCases())
      if (name.text().find(options.only) != std::string::npos)
        OneCase(name.text(), name.mix, LoadCommitted(name), options, requests, sum);
  }
  Print(sum);
  return 0;
}

}  // namespace hase::bench

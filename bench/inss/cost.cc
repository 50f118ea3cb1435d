// Cost at the given rates, at equal objectives: a case counts where both plans keep theirs.
#include <fmt/core.h>

#include <cmath>
#include <map>

#include "placement/services/service_bound.h"
#include "placement/services/service_policies.h"
#include "plans.h"
#include "tally.h"

namespace hase::bench {
namespace {

struct Costs {
  Means means;
  int both = 0, dearer = 0, cases = 0, late = 0, igniter_late = 0, igniter_none = 0;
};

void OneCase(const std::string& name, const serving::LoadedCase& loaded, const RunOptions& options,
             Costs& sum) {
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const serving::Arena arena(loaded.given, WorldLaw(), static_cast<uint64_t>(seed),
                               options.profiled);
    const auto view = arena.View();
    const placement::CapacityTable table(view, arena.model(), 0);
    const auto bound = placement::BoundOnCost(table);
    std::map<std::string, double> cost, late;
    fmt::print("{} seed {}:", name, seed);
    for (const char* policy : {"inss", "igniter"}) {
      placement::InssOptions own;
      own.objective = placement::ServiceObjective::kMinCost;
      own.margin = options.margin;
      const auto plan =
          std::string_view(policy) == "inss"
              ? placement::InssPolicy(own).Decide(view)
              : (*placement::MakeServicePolicy(policy, placement::ServiceObjective::kMinCost))
                    ->Decide(view);
      late[policy] = 1;
      if (plan.instances.empty()) {
        fmt::print("  {} finds no plan;", policy);
        continue;
      }
      cost[policy] = arena.CostPerHour(plan.instances);
      late[policy] =
          arena.Judge(plan.instances, {}, 100 + static_cast<uint64_t>(seed)).late_fraction();
      fmt::print("  {} {:.2f}/h on {} (late {:.2f} %)", policy, cost[policy],
                 arena.DevicesUsed(plan.instances), 100 * late[policy]);
    }
    if (bound && cost["inss"] > 0) {
      fmt::print("  bound {:.2f}/h", *bound);
      sum.means.Add("bound", *bound / cost["inss"]);
    }
    fmt::print("\n");
    std::fflush(stdout);
    ++sum.cases;
    sum.late += cost["inss"] > 0 && late["inss"] > 0.01;
    sum.igniter_late += cost["igniter"] > 0 && late["igniter"] > 0.01;
    sum.igniter_none += cost["igniter"] <= 0;
    if (cost["inss"] <= 0 || cost["igniter"] <= 0) continue;
    sum.means.Add("all", cost["inss"] / cost["igniter"]);
    if (late["inss"] > 0.01 || late["igniter"] > 0.01) continue;
    ++sum.both;
    sum.dearer += cost["inss"] > cost["igniter"] * 1.0001;
    sum.means.Add("equal", cost["inss"] / cost["igniter"]);
  }
}

}  // namespace

int RunCost(const RunOptions& options) {
  Costs sum;
  if (options.fresh > 0) {
    for (int k = 0; k < options.fresh; ++k) {
      const uint64_t seed = options.first + static_cast<uint64_t>(k);
      OneCase(fmt::format("fresh {}", seed), DrawFresh(seed), options, sum);
    }
  } else {
    for (const auto& name : CommittedCases())
      if (name.text().find(options.only) != std::string::npos)
        OneCase(name.text(), LoadCommitted(name), options, sum);
  }
  fmt::print(
      "cost, inss / igniter: {:.3f} where both keep the objectives ({} of {} runs; dearer in "
      "{}), {:.3f} over all; bound / inss {:.3f}\n"
      "late above 1 %: inss {}, igniter {}; igniter finds no plan: {}\n",
      sum.means.Of("equal"), sum.both, sum.cases, sum.dearer, sum.means.Of("all"),
      sum.means.Of("bound"), sum.late, sum.igniter_late, sum.igniter_none);
  return 0;
}

}  // namespace hase::bench

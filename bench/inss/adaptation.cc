// Rates that drift four-fold over an hour, with a three-fold burst; and re-planning at 64 GPUs.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "apps/serving/drift.h"
#include "placement/services/inss.h"
#include "plans.h"

namespace hase::bench {
namespace {

using placement::AdaptLevel;

constexpr double kHour = 3600, kStep = 20;

double Quantile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(p * static_cast<double>(v.size() - 1))];
}

// Every service swings four-fold once an hour, each in its own phase; one of them has a burst of
// three times its rate for two minutes.
void Drift(std::vector<workload::Service>& services, uint64_t seed) {
  Rng rng = Rng(seed).Split("drift");
  const size_t bursting =
      static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(services.size()) - 1));
  const double burst = rng.Uniform(900, 2700);
  for (size_t s = 0; s < services.size(); ++s) {
    const double mean = services[s].rate.front().rate_rps, phase = rng.Uniform(0, 2 * M_PI);
    services[s].rate.clear();
    for (double t = 0; t < kHour; t += kStep) {
      double rate = mean * std::exp(std::log(2.0) * std::sin(2 * M_PI * t / kHour + phase));
      if (s == bursting && t >= burst && t < burst + 120) rate *= 3;
      services[s].rate.push_back({FromSeconds(t), rate});
    }
  }
}

}  // namespace

int RunAdapt(const RunOptions& options) {
  for (int seed = 1; seed <= options.seeds; ++seed) {
    // A drawn case has 3 to 9 cards; four of them side by side give the money some grain.
    auto loaded = DrawFresh(options.first + static_cast<uint64_t>(seed), 4);
    Drift(loaded.given.services, static_cast<uint64_t>(seed));
    const serving::Arena arena(loaded.given, WorldLaw(), static_cast<uint64_t>(seed), true);
    const auto view = arena.View();
    placement::InssOptions cheap;
    cheap.objective = placement::ServiceObjective::kMinCost;
    const auto plan = placement::InssPolicy(cheap).Decide(view);
    const auto reference = serving::ClairvoyantCost(arena, kHour, 60);
    if (!reference) {
      fmt::print("seed {}: {}; no plan holds the greatest rates\n", seed, Describe(loaded.given));
      continue;
    }
    const double clairvoyant = *reference;
    fmt::print("seed {}: {}; clairvoyant {:.2f}\n", seed, Describe(loaded.given), clairvoyant);
    const std::pair<AdaptLevel, const char*> levels[] = {{AdaptLevel::kNothing, "none"},
                                                         {AdaptLevel::kBatches, "batches"},
                                                         {AdaptLevel::kShares, "shares"},
                                                         {AdaptLevel::kPlacement, "all"}};
    for (const auto& [level, name] : levels) {
      serving::DriftOptions drift;
      drift.adapt.level = level;
      drift.seed = static_cast<uint64_t>(seed);
      const auto out = serving::ServeDrift(arena, plan, drift);
      std::vector<double> touched(out.touched.begin(), out.touched.end());
      fmt::print(
          "  {:<8} attainment {:.2f} %, cost {:.2f} ({:.2f} of clairvoyant), {} actions, {} "
          "starts, touched median {:.0f}, event p99 {:.2f} ms, max {:.2f} ms\n",
          name, 100 * out.attainment(), out.cost, out.cost / clairvoyant, out.actions, out.starts,
          Quantile(touched, 0.5), Quantile(out.plan_ms, 0.99), Quantile(out.plan_ms, 1));
      if (options.detail)
        for (size_t s = 0; s < loaded.given.services.size(); ++s)
          fmt::print("    {:<22} {:.2f} %\n", loaded.given.services[s].name,
                     100 * out.served.services[s].attainment);
      std::fflush(stdout);
    }
  }
  return 0;
}

int RunReplan() {
  const auto loaded = Large(64, 200);
  const serving::Arena arena(loaded.given, {}, 1, true);
  const auto view = arena.View();
  const placement::CapacityTable table(view, arena.model(), placement::InssOptions().margin);
  placement::InssOptions cheap;
  cheap.objective = placement::ServiceObjective::kMinCost;
  const auto plan = placement::InssPolicy(cheap).Decide(view);
  placement::ServiceAdapter adapter(table, {});
  const auto begun = adapter.Begin(plan);
  Rng rng(3);
  std::vector<double> ms, touched;
  std::vector<double> rates;
  for (const auto& d : view.services) rates.push_back(d.rate_rps);
  double now = 0;
  for (int event = 0; event < 400; ++event) {
    const size_t s = static_cast<size_t>(rng.UniformInt(0, 199));
    rates[s] *= rng.Uniform(0.5, 2);
    now += 100;
    const auto start = std::chrono::steady_clock::now();
    auto actions = adapter.OnRate(FromSeconds(now), s, rates[s]);
    if (actions.empty()) actions = adapter.OnRate(FromSeconds(now + 61), s, rates[s]);
    ms.push_back(1e3 *
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (!actions.empty()) touched.push_back(static_cast<double>(actions.size()));
  }
  fmt::print(
      "64 GPUs, 200 services, {} instances, 400 rate changes by 0.5 to 2: re-plan median "
      "{:.2f} ms, p99 {:.2f}, max {:.2f}; {} led to actions, instances touched median {:.0f}, "
      "p90 {:.0f}\n",
      begun.size(), Quantile(ms, 0.5), Quantile(ms, 0.99), Quantile(ms, 1), touched.size(),
      Quantile(touched, 0.5), Quantile(touched, 0.9));
  return 0;
}

}  // namespace hase::bench

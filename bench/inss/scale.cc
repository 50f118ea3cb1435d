// The share law against the world's surfaces; planning times.
#include <fmt/core.h>

#include <chrono>
#include <cmath>

#include "placement/services/service_policies.h"
#include "plans.h"

namespace hase::bench {

using serving::Arena;

// Error of the corrected share law on the world's surfaces, off the nine points.
int RunFit(const RunOptions& options) {
  const auto law = WorldLaw();
  for (const std::string mix : {"mixed", "light"}) {
    if (mix.find(options.only) == std::string::npos) continue;
    auto setup = LoadCommitted({"8_of_4", mix});
    const Arena arena(setup.given, law, 1, true);
    for (size_t s = 0; s < setup.given.models.size(); ++s)
      for (size_t d = 0; d < setup.given.cluster.devices.size(); d += 2) {
        const auto& device = setup.given.cluster.devices[d];
        const ModelId model = setup.given.models[s];
        const auto l = arena.model().Law(model, device.type);
        double sum = 0, worst = 0;
        int n = 0;
        std::string which;
        for (const int64_t batch : {1, 2, 4, 16, 32})
          for (const int milli : {75, 100, 150, 200, 300, 400, 750, 1000}) {
            const latency::ShareGrant grant{MilliShare(milli), cluster::ShareMode::kMps, 1};
            const double truth = arena.truth().BatchSeconds(
                {model, device.id, grant.share, grant.mode, batch, 0}, batch);
            const double ours =
                latency::RunSeconds(arena.model().Find(model, device.type, batch)->terms, l,
                                    arena.model().sm_count(device.type), grant);
            const double e = ours / truth - 1;
            sum += std::abs(e);
            ++n;
            if (std::abs(e) > std::abs(worst)) {
              worst = e;
              which = fmt::format("batch {} at {}", batch, milli);
            }
          }
        fmt::print(
            "{} {} on {}: mean {:.1f} %, worst {:+.1f} % ({}), overlap {:.2f}, scaling {:.2f}\n",
            mix, setup.given.services[s].name, setup.given.cluster.types[device.type.index()].name,
            100 * sum / n, 100 * worst, which, l.overlap, l.scaling);
      }
  }
  return 0;
}

// `devices` cards of four types and `services` services cut from all mixes, at moderate rates.
int RunScale(int most_devices) {
  const std::pair<int, int> sizes[] = {{64, 200}, {256, 800}, {1024, 3000}};
  for (const auto& [devices, services] : sizes) {
    if (devices > most_devices) break;
    const auto setup = Large(devices, services);
    const Arena arena(setup.given, {}, 1, true);
    const auto view = arena.View();
    for (const auto objective :
         {placement::ServiceObjective::kMaxThroughput, placement::ServiceObjective::kMinCost}) {
      const auto start = std::chrono::steady_clock::now();
      const auto plan = (*placement::MakeServicePolicy("inss", objective))->Decide(view);
      double rps = 0;
      for (const auto& i : plan.instances) rps += i.rate_rps;
      fmt::print("{} GPUs, {} services, {}: {:.2f} s, {} instances, {} devices, {:.0f} rps\n",
                 devices, services,
                 objective == placement::ServiceObjective::kMinCost ? "min-cost" : "max-throughput",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                 plan.instances.size(), arena.DevicesUsed(plan.instances), rps);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace hase::bench

#include "placement/services/refusal.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hase::placement {
namespace {

constexpr double kLowLoad = 0.05;  // of a server: what a hint must leave room for

}  // namespace

std::optional<ServiceReject> WhyNever(const CapacityTable& table, size_t service) {
  const ServiceDemand& demand = table.Demand(service);
  const auto& view = table.view();
  if (!(demand.rate_rps > 0) || !std::isfinite(demand.rate_rps))
    return ServiceReject{demand.id, fmt::format("a rate of {} requests/s", demand.rate_rps),
                         "rate_rps: a number above 0"};
  if (!(demand.slo_ms > 0) || !std::isfinite(demand.slo_ms))
    return ServiceReject{demand.id, fmt::format("an objective of {} ms", demand.slo_ms),
                         "slo_ms: a number above 0"};
  double fastest_ms = 1e300, feasible_ms = 1e300, least_memory = 1e300, memory_there = 0;
  std::string unknown;
  bool fits = false;
  std::vector<bool> seen(view.types.size());
  for (const DeviceState& device : view.devices) {
    if (seen[device.type.index()]) continue;
    seen[device.type.index()] = true;
    const auto* one = table.model().Find(demand.model, device.type, 1);
    if (one == nullptr) {
      unknown = table.model().estimator().WhyNot(demand.model, device.type, 1);
      continue;
    }
    const auto law = table.model().Law(demand.model, device.type);
    const double alone = latency::RunSeconds(one->terms, law, 0, {});
    least_memory = std::min(least_memory, static_cast<double>(one->memory.value()));
    memory_there = std::max(memory_there, static_cast<double>(device.memory_total.value()));
    if (one->memory > device.memory_total) continue;
    fits = true;
    const double run_ms = 1e3 * alone * device.speed_factor;
    fastest_ms = std::min(fastest_ms, run_ms);
    // A queue at low load still takes a run, and a fresh arrival may meet one that runs; and the
    // plan holds its margin.
    const double margin =
        std::exp(table.margin() * table.model().SharedSigma(demand.model, device.type));
    feasible_ms = std::min(feasible_ms, run_ms * margin *
                                            table.Queue(service).Response(
                                                {.run_s = 1, .first = 1, .batch = 1}, kLowLoad));
    if (table.Of(service, device.type, DivisionMode(device.modes)).whole_rate() > 0)
      return std::nullopt;
  }
  if (least_memory > 1e299)
    return ServiceReject{demand.id, "no estimate on any device type: " + unknown, ""};
  if (!fits)
    return ServiceReject{demand.id,
                         fmt::format("needs {:.2f} GiB, the largest device has {:.2f} GiB",
                                     least_memory / (1 << 30), memory_there / (1 << 30)),
                         fmt::format("a device with {:.2f} GiB", least_memory / (1 << 30))};
  return ServiceReject{
      demand.id,
      fmt::format("objective of {:g} ms: one run alone on the fastest device takes {:.3g} ms",
                  demand.slo_ms, fastest_ms),
      fmt::format("slo_ms: {:.4g}", std::ceil(feasible_ms * 10) / 10)};
}

}  // namespace hase::placement

#include "apps/serving/why.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hase::serving {
namespace {

using placement::ShareStep;

// The least step whose rate alone reaches `rate`; nullptr: none.
const ShareStep* LeastStep(const placement::Capacity& capacity, double rate) {
  for (const auto& step : capacity.steps)
    if (step.rate_rps >= rate * (1 - 1e-9)) return &step;
  return nullptr;
}

std::vector<Alternative> Alternatives(const Arena& arena, const placement::ServiceView& view,
                                      const placement::CapacityTable& table,
                                      const placement::Instance& instance, size_t service) {
  std::vector<Alternative> list;
  std::vector<bool> seen(view.types.size());
  const auto chosen = view.devices[instance.device.index()].type;
  for (const auto& device : view.devices) {
    if (seen[device.type.index()]) continue;
    seen[device.type.index()] = true;
    const auto& capacity = table.Of(service, device.type, placement::DivisionMode(device.modes));
    Alternative a;
    a.type = arena.given().cluster.types[device.type.index()].name;
    a.chosen = device.type == chosen;
    a.most_rps = capacity.whole_rate();
    if (const ShareStep* step = LeastStep(capacity, instance.rate_rps)) {
      a.share = ToFraction(step->grant.share);
      a.price_per_hour = a.share * view.price_per_hour[device.id.index()];
    }
    list.push_back(std::move(a));
  }
  std::stable_sort(list.begin(), list.end(), [](const Alternative& a, const Alternative& b) {
    if ((a.share > 0) != (b.share > 0)) return a.share > 0;
    return a.price_per_hour < b.price_per_hour;
  });
  return list;
}

std::string DeviceSentence(const std::vector<Alternative>& list, double rate) {
  const auto mine = std::find_if(list.begin(), list.end(), [](const auto& a) { return a.chosen; });
  std::string text;
  for (const Alternative& a : list) {
    if (a.chosen) continue;
    if (!text.empty()) text += "; ";
    text += a.share > 0 ? fmt::format("{} would take {:.1f} % ({:.2f}/h)", a.type, 100 * a.share,
                                      a.price_per_hour)
                        : fmt::format("{} carries at most {:.0f}/s", a.type, a.most_rps);
  }
  if (mine == list.end() || list.size() == 1) return "the only device type there is";
  if (mine->share <= 0)
    return fmt::format("{:.0f}/s are more than one {} carries alone; {}", rate, mine->type, text);
  return fmt::format("alone, {:.0f}/s take {:.1f} % of a {} ({:.2f}/h); {}", rate,
                     100 * mine->share, mine->type, mine->price_per_hour, text);
}

}  // namespace

Why WhyOf(const Arena& arena, const placement::ServiceView& view,
          const placement::CapacityTable& table, std::span<const placement::Instance> instances,
          size_t index) {
  const auto& instance = instances[index];
  const size_t service = instance.service.index();
  const auto& device = view.devices[instance.device.index()];
  const double slo_s = table.SloSeconds(service);
  const auto latency = LatencyOf(view, arena.model(), instances, index);
  Why why;
  why.alternatives = Alternatives(arena, view, table, instance, service);
  why.device = DeviceSentence(why.alternatives, instance.rate_rps);

  // Margins included: this is what the planner counts with.
  placement::BatchServer server = latency.part.server;
  server.run_s *= std::exp(arena.model().SharedSigma(view.services[service].model, device.type));
  const auto& queue = table.Queue(service);
  why.sustained_rps = queue.SustainableRate(server, slo_s) * instance.processes;
  const double capacity_rps = static_cast<double>(server.batch) / server.run_s;
  why.utilisation = instance.rate_rps / instance.processes / capacity_rps;
  const double used = latency.at_percentile_ms * 1e-3 / slo_s;
  const double left = why.sustained_rps > 0 ? instance.rate_rps / why.sustained_rps : 0;
  if (left < 0.9)
    why.binds = fmt::format("nothing: it could serve {:.0f} % more beside its neighbours",
                            100 * (1 / std::max(1e-9, left) - 1));
  else if (why.sustained_rps / instance.processes >=
           0.999 * placement::kMaxUtilisation * capacity_rps)
    why.binds = fmt::format("utilisation {:.2f} of at most {:g}", why.utilisation,
                            placement::kMaxUtilisation);
  else
    why.binds = fmt::format("the objective: {:.0f} % of it used, margins not counted", 100 * used);

  const auto& capacity = table.OfProcesses(service, device.type,
                                           instance.mode == cluster::ShareMode::kExclusive
                                               ? placement::DivisionMode(device.modes)
                                               : instance.mode,
                                           instance.processes);
  const ShareStep* below = nullptr;
  for (const auto& step : capacity.steps)
    if (step.grant.share < instance.share) below = &step;
  if (below == nullptr) {
    why.share = "the least share there is";
  } else {
    const auto choice = capacity.Best(*below, device.speed_factor, slo_s);
    why.share =
        fmt::format("{:.1f} % would sustain {:.0f}/s alone; {:.0f}/s are planned",
                    100 * ToFraction(below->grant.share), choice.rate_rps, instance.rate_rps);
  }
  return why;
}

}  // namespace hase::serving

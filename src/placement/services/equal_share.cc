// equal-share: services are dealt over the devices, each device is divided equally among the
// services on it, blind to what they need and to interference. What the Kubernetes device plug-in's
// MPS replicas give (100 / replicas to each client). More devices than services: replicas.
#include <algorithm>

#include "placement/services/rival_plans.h"
#include "placement/services/rivals.h"

namespace hase::placement {

ServicePlan EqualSharePolicy::Decide(const ServiceView& view) {
  const RivalProblem problem(view);
  ServicePlan plan;
  plan.rejected = problem.rejected();
  const auto& table = problem.table();
  const auto& services = problem.services();
  const auto devices = problem.DevicesBySpeed();
  if (services.empty() || devices.empty()) return plan;
  std::vector<std::vector<size_t>> on(devices.size());
  for (size_t i = 0; i < std::max(services.size(), devices.size()); ++i)
    on[i % devices.size()].push_back(services[i % services.size()]);

  std::vector<double> sustained;
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceState& state = view.devices[devices[d]];
    const auto mode = DivisionMode(state.modes);
    const double part = 1.0 / static_cast<double>(on[d].size());
    for (size_t k = 0; k < on[d].size(); ++k) {
      const size_t s = on[d][k];
      const Capacity& capacity = table.Of(s, state.type, mode);
      if (capacity.steps.empty()) continue;
      // The largest step that is no more than the equal part.
      const ShareStep* step = &capacity.steps.front();
      for (const auto& candidate : capacity.steps)
        if (ToFraction(candidate.grant.share) <= part + 1e-9) step = &candidate;
      const double factor = mode == cluster::ShareMode::kTimeSlice ? 1 / part : 1;
      const Choice choice = capacity.Best(*step, factor * state.speed_factor, table.SloSeconds(s));
      Instance instance;
      instance.service = table.Demand(s).id;
      instance.device = state.id;
      instance.share = step->grant.share;
      instance.mode = mode;
      instance.batch = std::max<int64_t>(1, choice.batch);
      instance.slot = static_cast<int>(k);
      plan.instances.push_back(instance);
      sustained.push_back(choice.rate_rps);
    }
  }
  RatesAtFirstLimit(table, plan.instances, sustained);
  return plan;
}

}  // namespace hase::placement

// dedicated: one device per service, heaviest service on the fastest device. More services than
// devices: the rest are time-sliced onto the devices with the fewest residents. More devices than
// services: replicas for whoever has least capacity per request. What operators do without sharing
// (the default of the Kubernetes device plug-in, and its time-slicing replicas).
#include <algorithm>

#include "placement/services/rival_plans.h"
#include "placement/services/rivals.h"

namespace hase::placement {
namespace {

using cluster::ShareMode;

// Batch and rate of a whole-device instance that `residents` take turns on.
std::pair<Instance, double> Turn(const RivalProblem& problem, size_t service, size_t device,
                                 size_t residents) {
  const auto& table = problem.table();
  const DeviceState& state = table.view().devices[device];
  const auto mode = residents > 1 ? ShareMode::kTimeSlice : ShareMode::kExclusive;
  const Capacity& capacity = table.Of(service, state.type, mode);
  const double factor = state.speed_factor * static_cast<double>(residents);
  Choice choice;
  if (!capacity.steps.empty())
    choice = capacity.Best(capacity.steps.back(), factor, table.SloSeconds(service));
  Instance instance;
  instance.service = table.Demand(service).id;
  instance.device = state.id;
  instance.mode = mode;
  instance.batch = std::max<int64_t>(1, choice.batch);
  return {instance, choice.rate_rps};
}

}  // namespace

ServicePlan DedicatedPolicy::Decide(const ServiceView& view) {
  const RivalProblem problem(view);
  ServicePlan plan;
  plan.rejected = problem.rejected();
  const auto& services = problem.services();
  const auto devices = problem.DevicesBySpeed();
  if (services.empty() || devices.empty()) return plan;
  std::vector<std::vector<size_t>> on(devices.size());
  for (size_t i = 0; i < services.size(); ++i) {
    // The next empty device; then, from the fastest, one with the fewest residents.
    const auto fewest = std::min_element(
        on.begin(), on.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    fewest->push_back(services[i]);
  }
  std::vector<double> served(view.services.size(), 0.0);
  for (size_t d = 0; d < devices.size(); ++d)
    for (const size_t s : on[d]) served[s] += problem.WholeRate(s, view.devices[devices[d]]);
  for (size_t d = 0; d < devices.size(); ++d) {
    if (!on[d].empty()) continue;
    const size_t poorest = *std::min_element(services.begin(), services.end(), [&](auto a, auto b) {
      return served[a] / view.services[a].rate_rps < served[b] / view.services[b].rate_rps;
    });
    on[d].push_back(poorest);
    served[poorest] += problem.WholeRate(poorest, view.devices[devices[d]]);
  }
  std::vector<double> sustained;
  for (size_t d = 0; d < devices.size(); ++d)
    for (const size_t s : on[d]) {
      const auto [instance, rate] = Turn(problem, s, devices[d], on[d].size());
      plan.instances.push_back(instance);
      sustained.push_back(rate);
    }
  RatesAtFirstLimit(problem.table(), plan.instances, sustained);
  return plan;
}

}  // namespace hase::placement

#include "placement/services/rival_plans.h"

#include <algorithm>
#include <cmath>

#include "placement/services/refusal.h"

namespace hase::placement {

RivalProblem::RivalProblem(const ServiceView& view) {
  if (view.model == nullptr) own_.emplace(*view.estimator, view.types);
  table_.emplace(view, own_ ? *own_ : *view.model);
  std::vector<double> demand(view.services.size());
  for (size_t s = 0; s < view.services.size(); ++s) {
    if (auto never = WhyNever(*table_, s)) {
      rejected_.push_back(std::move(*never));
      continue;
    }
    services_.push_back(s);
    double most = 0;
    for (const auto& device : view.devices) most = std::max(most, WholeRate(s, device));
    demand[s] = view.services[s].rate_rps / std::max(1e-9, most);
  }
  std::stable_sort(services_.begin(), services_.end(),
                   [&](size_t a, size_t b) { return demand[a] > demand[b]; });
}

double RivalProblem::WholeRate(size_t service, const DeviceState& device) const {
  return table_->Of(service, device.type, DivisionMode(device.modes)).whole_rate();
}

std::vector<size_t> RivalProblem::DevicesBySpeed() const {
  const auto& view = table_->view();
  std::vector<double> speed(view.devices.size());
  std::vector<size_t> order;
  for (size_t d = 0; d < view.devices.size(); ++d) {
    for (const size_t s : services_)
      speed[d] += std::log(std::max(1e-6, WholeRate(s, view.devices[d])));
    if (view.devices[d].up) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return speed[a] > speed[b] + 1e-9; });
  return order;
}

std::vector<Instance> GreatestRates(const CapacityTable& table, const Attempt& attempt) {
  const auto at = [&](double factor) {
    std::vector<double> rates;
    for (size_t s = 0; s < table.services(); ++s)
      rates.push_back(table.Demand(s).rate_rps * factor);
    return attempt(rates);
  };
  double low = 1, high = 1;
  auto best = at(low);
  if (best) {
    while (auto more = at(high = low * 2)) {
      best = std::move(more);
      if ((low = high) > 1e9) break;
    }
  } else {
    while (!best && low > 1e-3) {
      high = low;
      best = at(low /= 2);
    }
    if (!best) return {};
  }
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    if (auto more = at(middle)) {
      best = std::move(more);
      low = middle;
    } else {
      high = middle;
    }
  }
  return *best;
}

void RatesAtFirstLimit(const CapacityTable& table, std::vector<Instance>& instances,
                       std::span<const double> sustained) {
  std::vector<double> sum(table.services(), 0.0);
  std::vector<size_t> index(instances.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    for (size_t s = 0; s < table.services(); ++s)
      if (table.Demand(s).id == instances[i].service) index[i] = s;
    sum[index[i]] += sustained[i];
  }
  double factor = 1e300;
  for (size_t i = 0; i < instances.size(); ++i)
    factor = std::min(factor, sum[index[i]] / table.Demand(index[i]).rate_rps);
  for (size_t i = 0; i < instances.size(); ++i)
    instances[i].rate_rps =
        sum[index[i]] > 0 ? factor * table.Demand(index[i]).rate_rps * sustained[i] / sum[index[i]]
                          : 0;
}

}  // namespace hase::placement

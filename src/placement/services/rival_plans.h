// What the rival policies have in common: they get the same capacities (share law, profile points,
// queue) as `inss`, so that only what they decide differs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "placement/services/capacity.h"
#include "placement/services/inss.h"

namespace hase::placement {

// The table a policy plans from, and the services that can be served at all.
class RivalProblem {
 public:
  explicit RivalProblem(const ServiceView& view);
  const CapacityTable& table() const { return *table_; }
  const std::vector<size_t>& services() const { return services_; }  // by demand, largest first
  const std::vector<ServiceReject>& rejected() const { return rejected_; }
  // Rate of the service on the whole device.
  double WholeRate(size_t service, const DeviceState& device) const;
  // Devices by what they serve on average, largest first.
  std::vector<size_t> DevicesBySpeed() const;

 private:
  std::optional<latency::ServiceModel> own_;
  std::optional<CapacityTable> table_;
  std::vector<size_t> services_;
  std::vector<ServiceReject> rejected_;
};

using Attempt = std::function<std::optional<std::vector<Instance>>(std::span<const double> rates)>;
// The greatest common factor on the services' rates for which `attempt` succeeds, within 1 %;
// empty where not even a thousandth fits.
std::vector<Instance> GreatestRates(const CapacityTable& table, const Attempt& attempt);

// For plans whose instances do not depend on the rates: gives every service the common factor at
// which the first instance reaches what it sustains. `sustained` by instance, in their order.
void RatesAtFirstLimit(const CapacityTable& table, std::vector<Instance>& instances,
                       std::span<const double> sustained);

}  // namespace hase::placement

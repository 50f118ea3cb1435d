// What no plan of the services can pass, under the planner's own capacities with interference,
// memory and share steps left out — so a bound, printed beside every plan. And the exact optimum of
// small instances by a mixed integer programme (CBC): shares in the planner's steps, one instance
// of a service per device, interference left out.
#pragma once

#include <optional>

#include "placement/services/capacity.h"

namespace hase::placement {

// Greatest common factor on all rates: a linear programme over (service, device type), each type
// serving at most its best rate per share. nullopt: the solver failed.
std::optional<double> BoundOnFactor(const CapacityTable& table);
// Least price per hour of whole devices that serve the rates once; nullopt: not even all do.
std::optional<double> BoundOnCost(const CapacityTable& table);
// At most 4 services × 3 devices.
std::optional<double> ExactFactor(const CapacityTable& table);

}  // namespace hase::placement

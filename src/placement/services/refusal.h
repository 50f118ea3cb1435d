// Services that no device of the view can ever serve, refused by name with the reason and the
// nearest value that could be served.
#pragma once

#include <optional>

#include "placement/plan.h"
#include "placement/services/capacity.h"

namespace hase::placement {

// Empty = it can be served: there is a model of it, it fits some device's memory and one run alone
// on the fastest leaves room below the objective.
std::optional<ServiceReject> WhyNever(const CapacityTable& table, size_t service);

}  // namespace hase::placement

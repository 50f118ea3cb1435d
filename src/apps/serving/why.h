// Why a plan has an instance where it is, in numbers: what binds it, what the next smaller share
// would give, and what the other device types would take for the same rate.
#pragma once

#include <string>
#include <vector>

#include "apps/serving/arena.h"
#include "placement/services/capacity.h"

namespace hase::serving {

struct Alternative {
  std::string type;
  bool chosen = false;
  double share = 0;           // the least that serves the rate alone on the device; 0 = none does
  double price_per_hour = 0;  // of that share
  double most_rps = 0;        // a whole device
};

struct Why {
  std::string binds;          // "objective (99 % of it used)", "utilisation 0.85", "memory", …
  std::string share, device;  // one sentence each
  double sustained_rps = 0;   // beside the others, as planned
  double utilisation = 0;
  std::vector<Alternative> alternatives;  // by device type, cheapest first
};

Why WhyOf(const Arena& arena, const placement::ServiceView& view,
          const placement::CapacityTable& table, std::span<const placement::Instance> instances,
          size_t index);

}  // namespace hase::serving

// Drift: services whose rates move, served by a plan that an adapter keeps right (or does not), in
// the request world. The adapter sees counted arrivals of the last seconds, nothing else; what it
// orders takes as long as loading takes, needs memory for both of old and new, and is paid for by
// the device.
#pragma once

#include <vector>

#include "apps/serving/arena.h"
#include "placement/services/adapt.h"

namespace hase::serving {

struct DriftOptions {
  placement::AdaptOptions adapt;
  double duration_s = 3600;
  double window_s = 2;  // of counting arrivals
  world::ArrivalPattern pattern = world::ArrivalPattern::kPoisson;
  std::vector<double> trace = {};  // kTrace
  uint64_t seed = 1;
};

struct DriftOutcome {
  world::RequestOutcome served;
  double cost = 0;              // price of the devices in use, over the run
  int actions = 0, starts = 0;  // starts: processes that had to load
  std::vector<int> touched;     // instances, of every event that led to actions
  std::vector<double> plan_ms;  // of every event
  double attainment() const { return 1 - served.late_fraction(); }
};

// From `plan`, over the rates of the arena's services.
DriftOutcome ServeDrift(const Arena& arena, const placement::ServicePlan& plan,
                        const DriftOptions& options);

// What a plan made anew every `every_s` at the greatest rates of that time would cost, moves free
// and known beforehand; nullopt if there is a time for which no plan is found.
std::optional<double> ClairvoyantCost(const Arena& arena, double duration_s, double every_s);

}  // namespace hase::serving

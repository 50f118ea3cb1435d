// Lower bounds of a simulation from its world's true times (placement/bounds.h).
#pragma once

#include "execution/backends/simulated/sim_case.h"

namespace hase::apps {

struct Bounds {
  double makespan_s = 0;   // from the first arrival
  double mean_flow_s = 0;  // of the jobs that can run at all
};

// Sharing is counted by what each second of a job's work must at least take of a card (World::
// LeastUse), or, where the world only knows slow-downs, by the greatest sum of 1 / slow-down over
// pairs and triples of this run's (model, batch) at equal shares.
Bounds LowerBounds(const execution::SimCase& sim);

}  // namespace hase::apps

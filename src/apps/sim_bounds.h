// Lower bounds of a simulation from its world's true times (placement/bounds.h).
#pragma once

#include "apps/sim_truth.h"

namespace hase::apps {

struct Bounds {
  double makespan_s = 0;        // from the first arrival: the greatest of the bounds below
  double resources_s = 0;       // by the least use of every second of work, one linear programme
  double configurations_s = 0;  // by configurations (sim_configurations.h); 0: too many kinds
  double mean_flow_s = 0;       // of the jobs that can run at all
  double largest_job_s = 0;     // the longest of their least solo times
};

// Sharing is counted by what each second of a job's work must at least take of a card (World::
// LeastUse), or, where the world only knows slow-downs, by the greatest sums of 1 / slow-down that
// this run's kinds reach in company. Jobs of one kind enter the linear
// programme as one amount of work, and so do, above `most_alone` of them, those that share with
// nobody, whose loading is then work of its own: a relaxation, so still a bound.
Bounds LowerBounds(const execution::SimCase& sim, const SimTruth& truth, size_t most_alone = 1000);

}  // namespace hase::apps

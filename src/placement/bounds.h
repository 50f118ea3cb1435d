// Bounds: what no schedule can beat, from a world's true times. Plain numbers in, plain numbers
// out; nothing here knows a predictor or a policy.
//
// Makespan, without sharing counted (sigma 1) or with (sigma_i = greatest sum of 1 / slow-down over
// co-resident sets that class i admits): each device can do at most sigma_i · C of solo work, so
// the linear programme  min C:  Σ_j p_ij x_ij ≤ sigma_i n_i C,  Σ_i x_ij = 1  bounds every schedule
// from below (Lawler and Labetoulle 1978); jobs released at or after r cannot start before r, so
// C ≥ r + LP(those jobs) for every r; and a job that cannot be cut takes its least time after its
// release. Mean flow time: nobody takes less than his least time.
//
// Exact optimum: no sharing, no cutting, jobs released at 0, by mixed integer programme (CBC); for
// a handful of jobs and devices.
#pragma once

#include <optional>
#include <vector>

namespace hase::placement {

struct BoundClass {
  int count = 1;      // devices of this class
  double sigma = 1;   // ≥ 1
  double busy_s = 0;  // work they already have, seconds of all of them together
};

struct BoundJob {
  double release_s = 0;
  bool divisible = false;   // may be cut over several devices
  int gang = 1;             // devices it holds at once; p_s is the time on each
  std::vector<double> p_s;  // by class: solo time, loading included where it cannot be saved;
                            // infinite: inadmissible
};

struct BoundInstance {
  std::vector<BoundClass> classes;
  std::vector<BoundJob> jobs;
};

// `most_releases`: distinct release times r whose LP is solved (all, or a spread of them with the
// first and the last; fewer is weaker but still a bound). 0 if there are no jobs.
double MakespanLowerBound(const BoundInstance& instance, int most_releases = 64);

// The work bound alone: LP over all jobs as if released at 0.
double WorkLowerBound(const BoundInstance& instance);

// A solution of that programme: by job, the part of its work that each class does. Jobs whose times
// are proportional get the same parts; one that no class can do gets none.
std::vector<std::vector<double>> WorkAllocation(const BoundInstance& instance);

// Mean over jobs of the least time (from arrival to end).
double MeanFlowLowerBound(const BoundInstance& instance);

// nullopt if the solver did not prove optimality within `limit_s`. Gangs are not modelled: their
// presence is nullopt too.
std::optional<double> OptimalMakespan(const BoundInstance& instance, double limit_s = 10);

}  // namespace hase::placement

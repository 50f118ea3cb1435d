// What neighbours on one device do to each other, from a few co-runs: how bursty their traffic is
// (a small grid), and for each such value a ridge regression of the slow-down that bandwidth beyond
// the device's does not explain on what the others draw, how many of them are busy and how much of
// the SMs they fill. Priors as in ShareLaw; no co-runs, no change.
#pragma once

#include <span>

#include "latency/service_latency.h"

namespace hase::latency {

struct NeighbourLaw {
  double crowding = 0, company = 0, heat = 0;  // as in ShareLaw
  double burst = 1;
  double doubt = 0;     // relative error of (ratio - 1), root mean square
  double residual = 0;  // of the ratio, root mean square of its logarithm
};

// One tenant of one co-run.
struct CoRun {
  Neighbour own;
  Neighbourhood others;
  double ratio = 1;  // measured time / time with the same share alone
};
NeighbourLaw FitNeighbours(std::span<const CoRun> runs, const ShareLaw& prior);

}  // namespace hase::latency

// From when to when instances really serve: loading takes as long as the truth says, a process
// needs room in the device's memory before it can start, and a share is changed by starting a
// second process (the shadow) that takes over when it is ready.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "world/requests.h"

namespace hase::world {

struct Lifetime {
  double start_s = 0;                                     // the process, with its memory
  double from_s = 0;                                      // takes requests
  double to_s = std::numeric_limits<double>::infinity();  // takes none any more
};

struct Lifetimes {
  std::vector<Lifetime> of;    // by instance
  int64_t delayed_starts = 0;  // found no room in memory at once
  int64_t gaps = 0;            // replacements without room for both: the old one went first
  double loading_s = 0;        // of all processes together
};

// An instance that does not fit waits for the next that ends on its device; one that replaces
// another and does not fit beside it takes its place at once and leaves a gap while it loads.
Lifetimes LifetimesOf(std::span<const ServingInstance> instances, const ServingTruth& truth);

}  // namespace hase::world

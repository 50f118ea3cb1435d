// The configurations of a simulation's cards: which kinds of work share a card, on which shares,
// and how fast each then gets on in the world at hand; and the makespan bound that follows
// (placement/configuration_bound.h).
//
// Admissible: up to four residents on shares in quarters, as every policy here gives, in the mode
// that the card offers first; their predicted memory, which admission adds up, fits the card; jobs
// that share with nobody are alone. A resident either works, at the world's rate beside the
// others, or loads its model, which no company slows on a GPU: each job must do both.
#pragma once

#include <optional>

#include "apps/sim_truth.h"

namespace hase::apps {

// Seconds from `first`; nullopt where there are too many kinds of work to try all pairs.
std::optional<double> ConfigurationMakespan(const execution::SimCase& sim, const SimTruth& truth,
                                            Nanos first);

}  // namespace hase::apps

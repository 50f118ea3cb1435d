// What a held-out device is compared with: scaled rooflines, which need no trees.
#pragma once

#include "latency/training/evaluation.h"

namespace hase::latency {

// Fills the baselines of every group and the means over op classes. No time of the held-out device
// is read but to score.
void AddBaselines(const Tables& tables, size_t holdout, Evaluation& evaluation);

}  // namespace hase::latency

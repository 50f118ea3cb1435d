// Intervals: how wrong an ensemble is on rows it never saw, for cards with training rows and
// without.
#pragma once

#include "latency/training/trainer.h"

namespace hase::latency {

// Whether the set has the same shapes on many cards, and so says what an unseen one does.
bool SharesShapes(Convention c);

// Error sizes from the errors of smaller trees that saw one half of the training buckets and
// predicted the other; quantiles of error / size on the calibration bucket.
Status AddSeenIntervals(const Tables& tables, const Table& table, const TrainOptions& options,
                        const RowFilter& filter, const Progress& progress, Ensemble& ensemble);
// Trains without each NVIDIA device in turn and takes the quantiles of the errors on it.
Status AddUnseenIntervals(const Tables& tables, const Table& table, const TrainOptions& options,
                          const RowFilter& filter, const Progress& progress, Ensemble& ensemble);

}  // namespace hase::latency

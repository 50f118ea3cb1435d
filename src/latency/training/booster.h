// Boosting: gradient-boosted regression trees by XGBoost's C API, the only code that includes it.
//
// Loss: pseudo-Huber on log-ratios with scale `delta`, optimised with the weights of iteratively
// re-weighted least squares (gradient e / s, curvature 1 / s, s = sqrt(1 + (e / delta)^2)): close
// to the median, which is what a relative error wants, and stable where second derivatives vanish.
// Same bytes at any number of threads: histogram training, fixed seeds, one fixed row order.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "latency/trees.h"

namespace hase::latency {

struct BoostOptions {
  int trees = 400;
  int depth = 10;
  double learning_rate = 0.07;
  double delta = 0.05;
  double min_child_weight = 5;
  double row_sample = 0.8, column_sample = 0.6;
  // Above 0: this quantile of the labels instead of their middle (pinball loss, its corner rounded
  // at delta).
  double quantile = 0;
  int threads = 2;
  int seed = 1;
};

// `rows` row-major with `width` columns; `weights` empty = all 1. `progress` is told the number of
// trees grown so far, now and then.
Result<Trees> TrainTrees(size_t width, std::span<const float> rows, std::span<const float> labels,
                         std::span<const float> weights, const BoostOptions& options,
                         const std::function<void(int)>& progress = {});

// As above, with XGBoost's own predictions for `probe` (row-major): what the walker is tested
// against.
Result<Trees> TrainTreesAndProbe(size_t width, std::span<const float> rows,
                                 std::span<const float> labels, const BoostOptions& options,
                                 std::span<const float> probe, std::vector<float>& predictions);

}  // namespace hase::latency

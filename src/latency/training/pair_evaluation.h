// Pairs: co-located throughputs of Gavel's jobs, pairs held out in five folds, against the best
// constant and one factor per job, both fitted on the same training pairs.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "latency/pair_model.h"

namespace hase::latency {

// One card's pairs, each once: a pair that stands in both orders, and the copies marked
// `_unconsolidated`, are dropped and counted.
struct PairRows {
  std::map<std::string, std::vector<PairObservation>> cards;  // two rows a pair, one if of twins
  std::map<std::string, int64_t> dropped;                     // reason -> rows of the file
};
// Reads `gavel` folders at any depth below the paths.
Result<PairRows> ReadPairRows(std::span<const std::filesystem::path> paths);

struct PairErrors {
  double mape = 0, median_ape = 0;  // of throughputs beside another
};
struct PairGroup {
  std::string card;
  int64_t jobs = 0, pairs = 0, rows = 0;
  PairErrors model;      // PairModel
  PairErrors two_sided;  // one factor per job and one per partner (rank 0)
  PairErrors job_factor, constant;
  int least_rank = 0, greatest_rank = 0;  // that the folds chose
};
std::vector<PairGroup> EvaluatePairs(const PairRows& rows);

}  // namespace hase::latency

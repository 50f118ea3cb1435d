// Trainer: from tables to the model file.
//
// Per (family, convention): trees on the training buckets (2–9), error sizes on one half of the
// calibration bucket, conformal quantiles on the other half, and quantiles for unseen devices from
// smaller trees trained with each NVIDIA device left out in turn. The test bucket (0) is never
// looked at.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "latency/training/booster.h"
#include "latency/training/table.h"

namespace hase::latency {

struct TrainOptions {
  int threads = 2;
  int64_t sample = 0;            // at most so many training rows per ensemble; 0 = all
  bool unseen_intervals = true;  // the left-out devices take about a third of the time
};

using Progress = std::function<void(const std::string&)>;

// Which rows may be trained on (beside the test bucket, which never is).
using RowFilter = std::function<bool(const Table&, const TableRow&)>;

Result<Ensemble> TrainEnsemble(const Tables& tables, const Table& table,
                               const TrainOptions& options, const RowFilter& filter,
                               const Progress& progress);
Result<ModelFile> TrainModel(const Tables& tables, const TrainOptions& options,
                             const Progress& progress);

// Digests of the rows that TrainModel uses (training and calibration buckets), sorted: what
// `evaluate` must not score. With a sample the rows left out count as used.
std::vector<uint32_t> UsedDigests(const Tables& tables);
// Sorted digests as differences, seven bits a byte; and back.
std::string PackDigests(std::span<const uint32_t> sorted);
Result<std::vector<uint32_t>> UnpackDigests(std::string_view bytes);

// The options that suit a table (found on bucket 2 while bucket 2 was left out).
BoostOptions OptionsFor(Family family, Convention convention, size_t rows);

}  // namespace hase::latency

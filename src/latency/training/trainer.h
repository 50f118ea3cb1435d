// Trainer: from tables to the model file.
//
// Per (family, convention): trees on the training buckets (2–9), error sizes from the errors of
// smaller trees that saw one half of those and predicted the other, conformal quantiles of
// error / size on the calibration bucket (1), and quantiles for unseen devices from smaller trees
// trained with each NVIDIA device left out in turn. The test bucket (0) is never
// looked at.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "latency/training/booster.h"
#include "latency/training/selection.h"
#include "latency/training/table.h"

namespace hase::latency {

struct TrainOptions {
  int threads = 2;
  int64_t sample = 0;            // at most so many training rows per ensemble; 0 = all
  bool unseen_intervals = true;  // the left-out devices take about a third of the time
};

using Progress = std::function<void(const std::string&)>;

Result<Ensemble> TrainEnsemble(const Tables& tables, const Table& table,
                               const TrainOptions& options, const RowFilter& filter,
                               const Progress& progress);
// Rows whose kernels training needs: LoadTables' `keep`.
bool KeptForTraining(const TableRow& row, Convention convention, const cluster::DeviceSpec& spec);

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

// Evaluation: errors of the predictor on rows that it was not trained on, by group.
//
// A row whose digest the model file's side table holds is never scored. Three ways to retrain
// before scoring: a device left out entirely, a tenth of the (in channels, out channels) blocks of
// convolutions left out, and ablations. Intervals are judged by coverage and by the interval score
// (Gneiting and Raftery, 2007) on the log scale, beside a constant-width conformal interval.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "latency/calibration.h"
#include "latency/training/trainer.h"

namespace hase::latency {

enum class Split : uint8_t { kUntrained, kGeometry, kBlock };

struct EvaluateOptions {
  Split split = Split::kUntrained;
  std::optional<std::string> holdout_device;  // catalogue name; retrains without it
  int calibrate = 0;                          // kernels of the held-out device to calibrate with
  std::vector<std::string> ablate;            // "roofline", "tiles", "specification"; retrains
  int64_t sample = 0;                         // training rows per ensemble when retraining
  int threads = 2;
};

struct ScoredRow {
  uint32_t table = 0, row = 0;
  double log_error = 0;  // log(measured / predicted)
  double low = 0, high = 0;
  double uncalibrated = 0;  // the error without the device's own correction
};

struct Group {
  std::string data_set, device, vendor, op_class, precision;
  int64_t rows = 0;
  double mape = 0, median_ape = 0, r2_log = 0, coverage = 0, interval_score = 0;
  double constant_score = 0;     // of constant-width conformal intervals
  double uncalibrated_mape = 0;  // equals mape unless calibrated
  // Held-out devices: a measured time of the same kernel on `source_card`, times the ratio of
  // rooflines, for those rows where there is one.
  std::string source_card;
  int64_t scaled_rows = 0;
  double scaled_roofline_mape = 0;
};

struct Evaluation {
  std::vector<Group> groups;
  std::vector<ScoredRow> scored;
  int64_t trained_rows = 0;      // read but not scored: training or calibration rows
  int64_t out_of_split = 0;      // read but not asked for
  int64_t calibration_rows = 0;  // kernels used to calibrate the held-out device
  double mape_mean_of_groups = 0;
  // Mean over op classes of means over NVIDIA devices (mean of their groups), groups of at least
  // kHeadlineRows rows, TensorFlow sessions apart.
  double headline_mape = 0;
  int64_t headline_groups = 0;
};
constexpr int64_t kHeadlineRows = 400;

// `used`: the model's digests. `model` is not looked at where the options retrain.
Result<Evaluation> Evaluate(Tables& tables, const ModelFile& model,
                            const std::unordered_set<uint32_t>& used,
                            const EvaluateOptions& options, const Progress& progress);

}  // namespace hase::latency

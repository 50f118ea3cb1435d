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
  std::vector<std::string> ablate;  // "roofline", "tiles", "specification", "session"; retrains
  int64_t sample = 0;               // training rows per ensemble when retraining
  int threads = 2;
};

struct ScoredRow {
  uint32_t table = 0, row = 0;
  double log_error = 0;  // log(measured / predicted)
  double low = 0, high = 0;
  double uncalibrated = 0;  // the error without the device's own correction
};

// What needs no trees, for a held-out device. The source card is the nearest other card with rows
// of the group's class and precision: least sum of |log ratio| of fp32 peak and of bandwidth, cards
// of the same maker first.
struct Baselines {
  std::string source_card;  // empty: no other card has such rows
  // Roofline times the median of (measured / roofline) of the source card's training rows.
  double scaled_roofline_mape = 0;
  // The very kernel's measured time on the source card times the ratio of rooflines, on those rows
  // where it was measured; and the predictor (before calibration, and as it is) on the same rows.
  int64_t same_kernel_rows = 0;
  double same_kernel_mape = 0, uncalibrated_on_same = 0, calibrated_on_same = 0;
};

struct Group {
  std::string data_set, device, vendor, op_class, precision;
  int64_t rows = 0;
  double mape = 0, median_ape = 0, r2_log = 0, coverage = 0, interval_score = 0;
  double constant_score = 0;     // of constant-width conformal intervals
  double uncalibrated_mape = 0;  // equals mape unless calibrated
  Baselines baselines;           // held-out devices only
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
  // Of groups of at least kHeadlineRows rows: how many, how many cover 76–84 %, and the mean of
  // their interval scores over those of constant width.
  int64_t large_groups = 0, covered_groups = 0;
  double interval_score_ratio = 0;
  // Means over op classes for a held-out device.
  struct HeldOut {
    double mape = 0, uncalibrated_mape = 0, scaled_roofline_mape = 0;
    // Classes with kernels that the source card measured too.
    double same_kernel_mape = 0, uncalibrated_on_same = 0, calibrated_on_same = 0;
  } held_out;
};
constexpr int64_t kHeadlineRows = 400;

// `used`: the model's digests. `model` is not looked at where the options retrain.
Result<Evaluation> Evaluate(Tables& tables, const ModelFile& model,
                            const std::unordered_set<uint32_t>& used,
                            const EvaluateOptions& options, const Progress& progress);

}  // namespace hase::latency

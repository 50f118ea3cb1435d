// Whole models: published latencies of networks that the zoo has, against the predictor.
//
// Four tables (PaddleClas on V100 with TensorRT, pytorch-gpu-benchmark, timm, cnn-benchmarks) are
// brought to (zoo model, card, batch, precision, runtime). They are test data, but for three
// networks that are named below and scored by nobody: constants of whole models come from those.
// Beside the predictor stands a fit a · GMACs + b · activations per table and card, leave one model
// out, which has seen the card's other models.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "latency/kernel_model.h"

namespace hase::latency {

// The calibration split: a plain, a residual and a dense network.
constexpr std::string_view kCalibrationNetworks[] = {"vgg13", "resnet34", "densenet169"};
enum class ModelSplit : uint8_t { kTest, kCalibration };
ModelSplit SplitOf(std::string_view zoo_model);

struct ModelRow {
  std::string table, device, model;  // device: the table's own name; model: of the zoo
  model::Runtime runtime = model::Runtime::kPyTorch;
  model::Precision precision = model::Precision::kFp32;
  int64_t batch = 1;
  double measured_ms = 0;
};

struct ModelRows {
  std::vector<ModelRow> rows;               // medians where a card was measured repeatedly
  std::map<std::string, int64_t> unmapped;  // "table: name" -> rows without a zoo model
};
// Reads whichever of the tables lie below the paths.
Result<ModelRows> ReadModelRows(std::span<const std::filesystem::path> paths);

struct ModelScore {
  ModelRow row;
  double predicted_ms = 0;
  bool extrapolated = false;
  double p10_ms = 0, p90_ms = 0;
  double fit_ms = 0;  // of the linear fit; 0 where it has too few rows
};
struct ModelGroup {
  std::string table, device, precision;
  bool seen = false;  // the card has training rows in some ensemble
  int64_t rows = 0;
  double median_ape = 0, mape = 0, r2_log = 0, coverage = 0;
  double bias = 0;  // median of log(measured / predicted)
  double fit_median_ape = 0, fit_r2_log = 0;
};
struct ModelEvaluation {
  std::vector<ModelScore> scores;
  std::vector<ModelGroup> groups;
  std::map<std::string, int64_t> dropped;
};
// Scores one of the splits; the linear fit always sees both.
Result<ModelEvaluation> EvaluateModels(const ModelRows& rows, const KernelModel& model,
                                       ModelSplit split);

}  // namespace hase::latency

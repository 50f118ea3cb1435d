#include "latency/training/booster.h"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace hase::latency {
namespace {

Status Check(int code, std::string_view what) {
  if (code == 0) return {};
  return Unavailable(fmt::format("xgboost: {}: {}", what, XGBGetLastError()));
}

// Owns a DMatrix.
class Matrix {
 public:
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    if (handle_ != nullptr) XGDMatrixFree(handle_);
  }
  Status Fill(size_t width, std::span<const float> rows, std::span<const float> labels) {
    HASE_RETURN_IF_ERROR(Check(
        XGDMatrixCreateFromMat(rows.data(), rows.size() / width, width, std::nanf(""), &handle_),
        "matrix"));
    if (labels.empty()) return {};
    return Check(XGDMatrixSetFloatInfo(handle_, "label", labels.data(), labels.size()), "labels");
  }
  DMatrixHandle get() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

class Booster {
 public:
  Booster() = default;
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() {
    if (handle_ != nullptr) XGBoosterFree(handle_);
  }
  Status Create(const Matrix& train, const BoostOptions& o, float base) {
    const DMatrixHandle matrix = train.get();
    HASE_RETURN_IF_ERROR(Check(XGBoosterCreate(&matrix, 1, &handle_), "booster"));
    const std::pair<const char*, std::string> parameters[] = {
        {"booster", "gbtree"},
        {"tree_method", "hist"},
        {"max_bin", "256"},
        {"max_depth", fmt::format("{}", o.depth)},
        {"eta", fmt::format("{}", o.learning_rate)},
        {"subsample", fmt::format("{}", o.row_sample)},
        {"colsample_bytree", fmt::format("{}", o.column_sample)},
        {"min_child_weight", fmt::format("{}", o.min_child_weight)},
        {"lambda", "1"},
        {"nthread", fmt::format("{}", o.threads)},
        {"seed", fmt::format("{}", o.seed)},
        {"verbosity", "0"},
        {"disable_default_eval_metric", "1"},
        {"base_score", fmt::format("{:.9g}", base)}};
    for (const auto& [name, value] : parameters) {
      HASE_RETURN_IF_ERROR(Check(XGBoosterSetParam(handle_, name, value.c_str()), name));
    }
    return {};
  }
  Status Boost(const Matrix& train, std::vector<float>& gradient, std::vector<float>& curvature) {
    return Check(XGBoosterBoostOneIter(handle_, train.get(), gradient.data(), curvature.data(),
                                       gradient.size()),
                 "boosting");
  }
  Result<std::span<const float>> Predict(const Matrix& matrix, bool training) {
    bst_ulong length = 0;
    const float* values = nullptr;
    HASE_RETURN_IF_ERROR(
        Check(XGBoosterPredict(handle_, matrix.get(), 1, 0, training ? 1 : 0, &length, &values),
              "prediction"));
    return std::span<const float>(values, length);
  }
  Result<std::string> Save() {
    bst_ulong length = 0;
    const char* bytes = nullptr;
    HASE_RETURN_IF_ERROR(Check(
        XGBoosterSaveModelToBuffer(handle_, R"({"format": "ubj"})", &length, &bytes), "saving"));
    return std::string(bytes, length);
  }

 private:
  BoosterHandle handle_ = nullptr;
};

Result<Trees> FromUbjson(const std::string& bytes, size_t width, float base) {
  const auto root = nlohmann::json::from_ubjson(bytes, true, false);
  if (root.is_discarded()) return Unavailable("xgboost: its model is not UBJSON as expected");
  std::vector<std::vector<Trees::Node>> trees;
  try {
    for (const auto& tree : root.at("learner").at("gradient_booster").at("model").at("trees")) {
      const auto left = tree.at("left_children").get<std::vector<int32_t>>();
      const auto right = tree.at("right_children").get<std::vector<int32_t>>();
      const auto feature = tree.at("split_indices").get<std::vector<uint32_t>>();
      const auto value = tree.at("split_conditions").get<std::vector<float>>();
      auto& out = trees.emplace_back(left.size());
      for (size_t i = 0; i < left.size(); ++i) {
        out[i] = {left[i], right.at(i), feature.at(i), value.at(i)};
      }
    }
  } catch (const std::exception& error) {
    return Unavailable(fmt::format("xgboost: unexpected model layout: {}", error.what()));
  }
  return Trees::Build(width, base, trees);
}

float QuantileOf(std::span<const float> values, double q) {
  std::vector<float> sorted(values.begin(), values.end());
  const auto at = sorted.begin() + static_cast<int64_t>(q * static_cast<double>(sorted.size()));
  std::ranges::nth_element(sorted, at);
  return *at;
}

Result<Trees> Train(size_t width, std::span<const float> rows, std::span<const float> labels,
                    std::span<const float> weights, const BoostOptions& options,
                    const std::function<void(int)>& progress, std::span<const float> probe,
                    std::vector<float>* predictions) {
  if (labels.empty()) return Invalid("no rows to train on");
  Matrix train;
  HASE_RETURN_IF_ERROR(train.Fill(width, rows, labels));
  const float base = QuantileOf(labels, options.quantile > 0 ? options.quantile : 0.5);
  Booster booster;
  HASE_RETURN_IF_ERROR(booster.Create(train, options, base));
  std::vector<float> gradient(labels.size()), curvature(labels.size());
  for (int i = 0; i < options.trees; ++i) {
    HASE_ASSIGN_OR_RETURN(const auto margin, booster.Predict(train, true));
    for (size_t r = 0; r < labels.size(); ++r) {
      const double error = margin[r] - labels[r];
      const double s = std::sqrt(1 + error * error / (options.delta * options.delta));
      const double weight = weights.empty() ? 1 : weights[r];
      gradient[r] = static_cast<float>(weight * error / s);
      curvature[r] = static_cast<float>(weight / s);
      if (options.quantile <= 0) continue;
      const double side = error / (options.delta * s);  // -1 to 1
      gradient[r] = static_cast<float>(weight * (side / 2 + 0.5 - options.quantile));
      curvature[r] = static_cast<float>(weight / 2);
    }
    HASE_RETURN_IF_ERROR(booster.Boost(train, gradient, curvature));
    if (progress && (i + 1) % 20 == 0) progress(i + 1);
  }
  if (predictions != nullptr) {
    Matrix matrix;
    HASE_RETURN_IF_ERROR(matrix.Fill(width, probe, {}));
    HASE_ASSIGN_OR_RETURN(const auto values, booster.Predict(matrix, false));
    predictions->assign(values.begin(), values.end());
  }
  HASE_ASSIGN_OR_RETURN(const auto bytes, booster.Save());
  return FromUbjson(bytes, width, base);
}

}  // namespace

Result<Trees> TrainTrees(size_t width, std::span<const float> rows, std::span<const float> labels,
                         std::span<const float> weights, const BoostOptions& options,
                         const std::function<void(int)>& progress) {
  return Train(width, rows, labels, weights, options, progress, {}, nullptr);
}

Result<Trees> TrainTreesAndProbe(size_t width, std::span<const float> rows,
                                 std::span<const float> labels, const BoostOptions& options,
                                 std::span<const float> probe, std::vector<float>& predictions) {
  return Train(width, rows, labels, {}, options, {}, probe, &predictions);
}

}  // namespace hase::latency

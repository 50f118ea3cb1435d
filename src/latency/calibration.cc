#include "latency/calibration.h"

#include <algorithm>
#include <cmath>

#include "latency/solve.h"

namespace hase::latency {
namespace {

constexpr double kRidge = 1.0;
constexpr double kRobustScale = 0.1;
constexpr double kExpertGain = 3.0;    // experts deviate little: weigh them up against the ridge
constexpr double kClassShrinkage = 8;  // points an op class needs to be half trusted
constexpr int kRounds = 8;
constexpr double kLeastResidual = 0.08;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::array<double, kPhysicsTerms> PhysicsTerms(Family family, std::span<const float> row) {
  static const auto* places = [] {
    auto* all = new std::array<std::array<size_t, 3>, kFamilyCount>;
    for (int f = 0; f < kFamilyCount; ++f) {
      const auto& names = FeatureNames(static_cast<Family>(f));
      const std::string_view wanted[] = {"balance", "work_per_launch", "roofline_us"};
      for (size_t i = 0; i < 3; ++i) {
        (*all)[static_cast<size_t>(f)][i] =
            static_cast<size_t>(std::ranges::find(names, wanted[i]) - names.begin());
      }
    }
    return all;
  }();
  const auto& at = (*places)[static_cast<size_t>(family)];
  const double balance = row[at[0]];
  return {balance, row[at[1]], std::max(balance, 0.0), row[at[2]]};
}

std::vector<double> Correction::Terms(const CalibrationPoint& p) const {
  std::vector<double> z;
  for (size_t i = 0; i < kPhysicsTerms; ++i) {
    // Held inside the range of the points, so that a far kernel is not carried away.
    z.push_back(std::clamp((p.physics[i] - mean_[i]) / deviation_[i], -2.5, 2.5));
  }
  double mean = 0;
  for (const double e : p.experts) mean += e / static_cast<double>(p.experts.size());
  for (const double e : p.experts) z.push_back(kExpertGain * std::clamp(e - mean, -1.0, 1.0));
  return z;
}

Correction Correction::Fit(std::span<const CalibrationPoint> points) {
  Correction c;
  c.points_ = static_cast<int64_t>(points.size());
  if (points.empty()) return c;
  const auto count = static_cast<double>(points.size());
  for (size_t i = 0; i < kPhysicsTerms; ++i) {
    double sum = 0, squares = 0;
    for (const auto& p : points) sum += p.physics[i];
    c.mean_[i] = sum / count;
    for (const auto& p : points) squares += std::pow(p.physics[i] - c.mean_[i], 2);
    c.deviation_[i] = std::max(0.1, std::sqrt(squares / count));
  }
  std::vector<std::vector<double>> z;
  std::vector<double> errors;
  for (const auto& p : points) {
    z.push_back(c.Terms(p));
    errors.push_back(p.log_error);
  }
  const size_t terms = z[0].size();
  c.weights_.assign(terms, 0);
  c.offset_ = Median(errors);
  std::vector<double> trust(points.size(), 1), left(points.size());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<double>> a(terms, std::vector<double>(terms, 0));
    std::vector<double> b(terms, 0);
    for (size_t i = 0; i < terms; ++i) a[i][i] = kRidge;
    for (size_t r = 0; r < z.size(); ++r) {
      for (size_t i = 0; i < terms; ++i) {
        b[i] += trust[r] * z[r][i] * (errors[r] - c.offset_);
        for (size_t j = 0; j <= i; ++j) a[i][j] += trust[r] * z[r][i] * z[r][j];
      }
    }
    SolvePositive(a, b);
    c.weights_ = b;
    double sum = 0, total = 0;
    for (size_t r = 0; r < z.size(); ++r) {
      left[r] = errors[r] - c.offset_;
      for (size_t i = 0; i < terms; ++i) left[r] -= z[r][i] * c.weights_[i];
      sum += trust[r] * left[r];
      total += trust[r];
    }
    c.offset_ += sum / total;
    for (size_t r = 0; r < z.size(); ++r) {
      left[r] -= sum / total;
      trust[r] = 1 / std::sqrt(1 + std::pow(left[r] / kRobustScale, 2));
    }
  }
  std::map<int, std::vector<double>> by_class;
  for (size_t r = 0; r < z.size(); ++r) by_class[points[r].op_class].push_back(left[r]);
  double squares = 0;
  for (const auto& [op_class, values] : by_class) {
    const auto n = static_cast<double>(values.size());
    c.class_offset_[op_class] =
        by_class.size() > 1 ? Median(values) * n / (n + kClassShrinkage) : 0;
    for (const double v : values) squares += std::pow(v - c.class_offset_[op_class], 2);
  }
  // Few points flatter themselves: about six freedoms are spent, and no card is known better than
  // kLeastResidual.
  c.residual_ = std::max(kLeastResidual, std::sqrt(squares / count * (count + 6) / count));
  return c;
}

double Correction::At(const CalibrationPoint& where) const {
  if (points_ == 0) return 0;
  double value = offset_;
  const auto z = Terms(where);
  for (size_t i = 0; i < std::min(z.size(), weights_.size()); ++i) value += z[i] * weights_[i];
  const auto it = class_offset_.find(where.op_class);
  return value + (it == class_offset_.end() ? 0 : it->second);
}

}  // namespace hase::latency

#include "latency/local_regressor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace hase::latency {
namespace {

// Solves A·x = b for `columns` right-hand sides by Cholesky; A (n×n, row-major, symmetric positive
// definite) is overwritten by its factor, b (n×columns) by the solution.
void SolveSymmetric(std::vector<double>& a, size_t n, std::vector<double>& b, size_t columns) {
  for (size_t j = 0; j < n; ++j) {
    double* row_j = &a[j * n];
    double diagonal = row_j[j];
    for (size_t k = 0; k < j; ++k) diagonal -= row_j[k] * row_j[k];
    row_j[j] = std::sqrt(std::max(diagonal, 1e-12));
    for (size_t i = j + 1; i < n; ++i) {
      double* row_i = &a[i * n];
      double sum = row_i[j];
      for (size_t k = 0; k < j; ++k) sum -= row_i[k] * row_j[k];
      row_i[j] = sum / row_j[j];
    }
  }
  for (size_t c = 0; c < columns; ++c) {
    for (size_t i = 0; i < n; ++i) {
      double sum = b[i * columns + c];
      for (size_t k = 0; k < i; ++k) sum -= a[i * n + k] * b[k * columns + c];
      b[i * columns + c] = sum / a[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
      double sum = b[i * columns + c];
      for (size_t k = i + 1; k < n; ++k) sum -= a[k * n + i] * b[k * columns + c];
      b[i * columns + c] = sum / a[i * n + i];
    }
  }
}

double SquaredDistance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

void LocalRegressor::Add(std::vector<double> x, double y, uint32_t group) {
  if (y_.empty()) dimension_ = x.size();
  HASE_CHECK(x.size() == dimension_, "{} coordinates, not {}", x.size(), dimension_);
  x_.insert(x_.end(), x.begin(), x.end());
  y_.push_back(y);
  group_.push_back(group);
  median_valid_ = false;
}

double LocalRegressor::Median() const {
  if (!median_valid_) {
    std::vector<double> sorted = y_;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    median_ = *middle;
    median_valid_ = true;
  }
  return median_;
}

double LocalRegressor::Covariance(std::span<const double> a, std::span<const double> b) const {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += a[i] * b[i];
  const double s = std::sqrt(3 * SquaredDistance(a, b));
  return options_.amplitude * (1 + s) * std::exp(-s) + options_.trend * dot;
}

LocalRegressor::Answer LocalRegressor::Predict(std::span<const double> x,
                                               std::span<const uint32_t> without) const {
  const double wide = options_.amplitude + options_.noise;
  if (y_.empty()) return {0, wide, 1e9};
  HASE_CHECK(x.size() == dimension_, "{} coordinates, not {}", x.size(), dimension_);
  std::vector<std::pair<double, uint32_t>> near;
  near.reserve(y_.size());
  for (size_t i = 0; i < y_.size(); ++i) {
    if (std::ranges::find(without, group_[i]) != without.end()) continue;
    near.emplace_back(SquaredDistance(Point(i), x), static_cast<uint32_t>(i));
  }
  if (near.empty()) return {0, wide, 1e9};
  const size_t n = std::min(near.size(), static_cast<size_t>(options_.neighbours));
  std::ranges::partial_sort(near, near.begin() + static_cast<ptrdiff_t>(n));

  // Coordinates relative to the query keep the trend term well conditioned and make it vanish in
  // the covariance with the query itself.
  std::vector<std::vector<double>> points(n, std::vector<double>(dimension_));
  for (size_t i = 0; i < n; ++i) {
    const auto p = Point(near[i].second);
    for (size_t d = 0; d < dimension_; ++d) points[i][d] = p[d] - x[d];
  }
  const std::vector<double> origin(dimension_, 0.0);
  std::vector<double> a(n * n), cross(n), right(n * 3);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = Covariance(points[i], points[j]);
    a[i * n + i] += options_.noise;
    cross[i] = Covariance(points[i], origin);
    right[i * 3] = y_[near[i].second];
    right[i * 3 + 1] = 1;
    right[i * 3 + 2] = cross[i];
  }
  SolveSymmetric(a, n, right, 3);
  double sum_y = 0, sum_1 = 0, mean = 0, explained = 0;
  for (size_t i = 0; i < n; ++i) {
    sum_y += right[i * 3];
    sum_1 += right[i * 3 + 1];
    explained += cross[i] * right[i * 3 + 2];
  }
  const double local = (sum_y + Median() * options_.prior_weight) / (sum_1 + options_.prior_weight);
  for (size_t i = 0; i < n; ++i) mean += cross[i] * (right[i * 3] - local * right[i * 3 + 1]);
  return {local + mean, std::max(options_.amplitude - explained, 0.0) + options_.noise,
          std::sqrt(near.front().first)};
}

}  // namespace hase::latency

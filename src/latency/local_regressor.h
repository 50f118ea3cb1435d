// LocalRegressor: Gaussian-process interpolation from the nearest measured points.
//
// What is interpolated is a log residual over a physical model (roofline), so a wrong answer far
// from all points falls back to the physics times a typical factor. For each query the K nearest
// points are taken and an ordinary kriging system with a Matérn-3/2 covariance is solved; K³/3
// multiply-adds, some tens of microseconds at K = 48. There is no training: a new point counts from
// the next query on, and leaving points out (their group) costs nothing, which makes honest
// leave-one-out errors cheap.
//
// Source: ordinary kriging with local neighbourhoods, Chilès and Delfiner, Geostatistics, ch. 3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hase::latency {

class LocalRegressor {
 public:
  struct Options {
    int neighbours = 48;
    double amplitude = 0.3;   // variance of the residual far from any point
    double noise = 0.004;     // variance of a repeated measurement
    double trend = 0.05;      // variance of linear trends, per unit of scaled distance
    double prior_weight = 1;  // how strongly the median of all points pulls the local mean
  };
  struct Answer {
    double mean = 0;
    double variance = 0;          // of the residual, noise included
    double nearest_distance = 0;  // in scaled units; 0 = a point lies exactly there
  };

  LocalRegressor() = default;
  explicit LocalRegressor(Options options) : options_(options) {}

  // Points must all have the same dimension; coordinates are already divided by their length
  // scales. Points of one group can be left out together.
  void Add(std::vector<double> x, double y, uint32_t group);
  size_t size() const { return y_.size(); }

  // `without`: groups to leave out. Returns the prior (mean 0, wide) if no point is left.
  Answer Predict(std::span<const double> x, std::span<const uint32_t> without = {}) const;

 private:
  double Covariance(std::span<const double> a, std::span<const double> b) const;
  std::span<const double> Point(size_t i) const { return {x_.data() + i * dimension_, dimension_}; }
  double Median() const;

  Options options_;
  size_t dimension_ = 0;
  std::vector<double> x_;  // row after row
  std::vector<double> y_;
  std::vector<uint32_t> group_;
  mutable double median_ = 0;
  mutable bool median_valid_ = false;
};

}  // namespace hase::latency

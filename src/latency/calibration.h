// Calibration: a device's own correction from a few measured kernels (at most some dozens).
//
// A card without training rows behaves like a mix of those with, so per ensemble the log error is
// regressed on what each known card would have said (its deviation from their mean) and on four
// terms of physics (compute against memory, work against launch, size), plus an offset per op
// class; ridge shrinkage keeps few points from bending much, and the loss is robust to outliers.
// Op classes without points share the mean offset. On a card with training rows there are no
// experts and the rest remains.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "latency/ensemble.h"

namespace hase::latency {

constexpr size_t kPhysicsTerms = 4;
// The physics terms of a row of features.
std::array<double, kPhysicsTerms> PhysicsTerms(Family family, std::span<const float> row);

struct CalibrationPoint {
  std::array<double, kPhysicsTerms> physics = {};
  std::vector<double> experts;  // each known card's log-ratio; empty on a seen device
  double log_error = 0;         // log(observed / predicted)
  int op_class = 0;
};

// The correction of one ensemble on one device.
class Correction {
 public:
  static Correction Fit(std::span<const CalibrationPoint> points);
  // To be added to the predicted log time.
  double At(const CalibrationPoint& where) const;
  int64_t points() const { return points_; }
  // Root mean square of what is left at the points, log scale.
  double residual() const { return residual_; }

 private:
  std::vector<double> Terms(const CalibrationPoint& p) const;

  std::array<double, kPhysicsTerms> mean_ = {}, deviation_ = {1, 1, 1, 1};
  std::vector<double> weights_;
  double offset_ = 0;
  std::map<int, double> class_offset_;  // beside offset_
  double residual_ = 0;
  int64_t points_ = 0;
};

// Per ensemble (family, convention) of one device.
struct KernelCalibration {
  std::map<std::pair<Family, Convention>, Correction> corrections;
  // For conventions without points of their own.
  double overall_offset = 0;
};

}  // namespace hase::latency

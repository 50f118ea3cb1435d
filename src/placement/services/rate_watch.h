// RateWatch: the rate of a service from counted arrivals. Smooth while it drifts, at once when a
// count is far above what chance allows (a burst), slowly downwards.
#pragma once

#include <algorithm>
#include <cmath>

namespace hase::placement {

class RateWatch {
 public:
  explicit RateWatch(double rate_rps) : rate_(rate_rps) {}

  // `count` arrivals in the last `seconds`; gives the rate to plan for.
  double Observe(double count, double seconds) {
    const double expected = rate_ * seconds, seen = count / seconds;
    const double chance = std::sqrt(std::max(1.0, expected));
    if (count > expected + kSurprise * chance) {
      // Two windows in a row: a burst. One: half way, it may be chance after all.
      rate_ = surprised_ ? seen : (rate_ + seen) / 2;
      surprised_ = true;
      return std::max(rate_, seen);
    }
    surprised_ = false;
    const double weight = 1 - std::exp(-seconds / (seen > rate_ ? kRise : kFall));
    rate_ += weight * (seen - rate_);
    return rate_;
  }
  double rate() const { return rate_; }

 private:
  static constexpr double kSurprise = 3.5;         // standard deviations
  static constexpr double kRise = 20, kFall = 40;  // seconds
  double rate_;
  bool surprised_ = false;
};

}  // namespace hase::placement

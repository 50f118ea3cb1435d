// The interval score: the width of an interval that leaves out `kOutside` of the cases, and a fine
// for missing by how far (Gneiting and Raftery, 2007; Winkler's score). Less is better.
#pragma once

namespace hase::latency {

constexpr double kOutside = 0.2;  // what p10–p90 leaves out

constexpr double IntervalScore(double value, double low, double high) {
  constexpr double kFine = 2 / kOutside;
  return high - low + (value < low ? kFine * (low - value) : 0) +
         (value > high ? kFine * (value - high) : 0);
}

}  // namespace hase::latency

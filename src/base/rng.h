// Rng: seeded, splittable randomness with distributions of our own, because those of <random>
// differ between standard libraries and a seed must give the same bytes everywhere. Generator:
// xoshiro256** (Blackman and Vigna), seeded by SplitMix64.
#pragma once

#include <cstdint>
#include <string_view>

namespace hase {

class Rng {
 public:
  explicit Rng(uint64_t seed);
  // An independent stream for one purpose, so that adding a draw in one place moves no other.
  Rng Split(std::string_view purpose) const;

  uint64_t Next();
  double Uniform();                            // [0, 1)
  double Uniform(double lo, double hi);        // [lo, hi)
  int64_t UniformInt(int64_t lo, int64_t hi);  // [lo, hi], both ends included
  double Normal();                             // mean 0, deviation 1
  double Exponential(double rate);             // mean 1 / rate
  double Pareto(double minimum, double alpha);

 private:
  uint64_t seed_;
  uint64_t state_[4];
};

}  // namespace hase

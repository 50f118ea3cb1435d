#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace hase {
namespace {
uint64_t SplitMix(uint64_t& x) {
  x += 0x9e3779b97f4a7c15ULL;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
}  // namespace

Rng::Rng(uint64_t seed) : seed_(seed) {
  uint64_t x = seed;
  for (auto& word : state_) word = SplitMix(x);
}

Rng Rng::Split(std::string_view purpose) const {
  uint64_t x = seed_ ^ Fnv1a64(purpose);
  return Rng(SplitMix(x));
}

uint64_t Rng::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Rng::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
double Rng::Uniform(double lo, double hi) { return lo + (hi - lo) * Uniform(); }

int64_t Rng::UniformInt(int64_t lo, int64_t hi) {
  const auto span = static_cast<uint64_t>(hi - lo) + 1;
  if (span == 0) return static_cast<int64_t>(Next());
  // Reject the tail so that every value is equally likely.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % span;
  uint64_t draw = Next();
  while (draw >= limit) draw = Next();
  return lo + static_cast<int64_t>(draw % span);
}

double Rng::Normal() {
  const double u = 1.0 - Uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * Uniform());
}
double Rng::Exponential(double rate) { return -std::log(1.0 - Uniform()) / rate; }
double Rng::Pareto(double minimum, double alpha) {
  return minimum / std::pow(1.0 - Uniform(), 1.0 / alpha);
}

}  // namespace hase

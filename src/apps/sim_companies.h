// How kinds of work get on together on one type of card of a simulation: the world's rates of all
// pairs on shares in quarters, and of sets of three and four when asked.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "execution/backends/simulated/sim_case.h"

namespace hase::apps {

// Shares of the first and of the second of a pair, in quarters.
constexpr std::array<std::pair<int, int>, 6> kSplits = {
    {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}}};
// The same pair told the other way round.
constexpr std::array<size_t, 6> kMirrored = {0, 2, 1, 3, 5, 4};
constexpr size_t SplitOf(int a, int b) {
  for (size_t c = 0; c < kSplits.size(); ++c) {
    if (kSplits[c] == std::pair(a, b)) return c;
  }
  return 0;
}

class Companies {
 public:
  struct Kind {
    ModelId model;
    int64_t batch;  // 0: it cannot run there, or shares with nobody
    Bytes memory;
  };
  static constexpr size_t kMost = 4;
  using Rates = std::array<float, kMost>;
  // Kinds with their shares in quarters.
  struct Set {
    std::array<uint16_t, kMost> kind{};
    std::array<uint8_t, kMost> quarters{};
    size_t size = 0;
  };

  // `sim` outlives the object.
  Companies(const execution::SimCase& sim, DeviceId card, std::vector<Kind> kinds);

  size_t size() const { return kinds_.size(); }
  // Rate of a beside b.
  float Pair(size_t split, size_t a, size_t b) const { return pair_[split][a * size() + b]; }
  // At most this fast with two or three others on a share of so many quarters.
  float Cap(int quarters, size_t a) const { return cap_[static_cast<size_t>(quarters)][a]; }
  // Rates of three or four; remembered.
  const Rates& Of(const Set& set);
  size_t evaluated() const { return seen_.size(); }

 private:
  // All zero where admission would not have them together.
  Rates Evaluate(const Set& set) const;

  const execution::SimCase& sim_;
  DeviceId card_;
  cluster::ShareMode mode_ = cluster::ShareMode::kExclusive;
  Bytes memory_;
  std::vector<Kind> kinds_;
  std::array<std::vector<float>, kSplits.size()> pair_;
  std::array<std::vector<float>, 3> cap_;  // by quarters
  std::unordered_map<uint64_t, Rates> seen_;
};

}  // namespace hase::apps

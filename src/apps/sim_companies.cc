#include "apps/sim_companies.h"

#include <algorithm>
#include <cmath>

namespace hase::apps {
namespace {

constexpr int kQuarter = 250;

cluster::ShareMode FirstShared(const cluster::Device& device) {
  for (const auto mode : device.modes) {
    if (mode != cluster::ShareMode::kExclusive && mode != cluster::ShareMode::kMig) return mode;
  }
  return cluster::ShareMode::kExclusive;
}

}  // namespace

Companies::Companies(const execution::SimCase& sim, DeviceId card, std::vector<Kind> kinds)
    : sim_(sim), card_(card), kinds_(std::move(kinds)) {
  const auto& device = sim.cluster.devices[card.index()];
  mode_ = FirstShared(device);
  memory_ = sim.cluster.types[device.type.index()].spec.memory;
  const size_t n = kinds_.size();
  for (auto& table : pair_) table.assign(n * n, 0);
  for (auto& cap : cap_) cap.assign(n, 0);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a; b < n; ++b) {
      for (size_t c = 0; c < kSplits.size(); ++c) {
        const Set set{
            {static_cast<uint16_t>(a), static_cast<uint16_t>(b)},
            {static_cast<uint8_t>(kSplits[c].first), static_cast<uint8_t>(kSplits[c].second)},
            2};
        const Rates rates = Evaluate(set);
        pair_[c][a * n + b] = rates[0];
        pair_[kMirrored[c]][b * n + a] = rates[1];
      }
    }
  }
  for (size_t a = 0; a < n; ++a) {
    float quarter = 0, half = 0;
    for (size_t b = 0; b < n; ++b) {
      quarter = std::max({quarter, Pair(SplitOf(1, 1), a, b), Pair(SplitOf(1, 2), a, b)});
      half = std::max(half, Pair(SplitOf(2, 1), a, b));
    }
    cap_[1][a] = quarter;
    cap_[2][a] = half;
  }
}

const Companies::Rates& Companies::Of(const Set& set) {
  uint64_t key = set.quarters[0];
  for (size_t i = 0; i < set.size; ++i) key = key << 15 | (set.kind[i] + 1u);
  const auto [at, added] = seen_.try_emplace(key);
  if (added) at->second = Evaluate(set);
  return at->second;
}

Companies::Rates Companies::Evaluate(const Set& set) const {
  Rates rates{};
  std::array<world::Occupant, kMost> occupants;
  std::array<double, kMost> factors{};
  Bytes memory;
  for (size_t i = 0; i < set.size; ++i) {
    const Kind& kind = kinds_[set.kind[i]];
    if (kind.batch <= 0) return rates;
    memory += kind.memory;
    occupants[i] = {kind.model, kind.batch, MilliShare(set.quarters[i] * kQuarter), mode_};
  }
  if (memory > memory_) return rates;
  sim_.world->Slowdowns(card_, std::span(occupants).first(set.size),
                        std::span(factors).first(set.size));
  // Rounded up to a float: what is claimed is an upper bound.
  for (size_t i = 0; i < set.size; ++i) {
    rates[i] = std::nextafter(static_cast<float>(1 / factors[i]), 2.0f);
  }
  return rates;
}

}  // namespace hase::apps

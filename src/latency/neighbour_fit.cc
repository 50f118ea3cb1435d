#include "latency/neighbour_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace hase::latency {
namespace {

// Deviations: of a measured ratio (relative), and of each parameter from its prior.
constexpr double kNoise = 0.03;
constexpr std::array<double, 3> kSpread = {0.15, 0.015, 0.03};
constexpr double kBursts[] = {1, 0.6, 0.8, 1.25, 1.5, 2};

using Row = std::array<double, 3>;

Row FeaturesOf(const CoRun& run) { return {run.others.drawn, run.others.busy, run.others.sms}; }

NeighbourLaw FitAt(double burst, std::span<const CoRun> runs, const ShareLaw& prior) {
  std::array<double, 3> x = {prior.crowding, prior.company, prior.heat};
  const std::array<double, 3> centre = x;
  std::vector<double> main;
  for (const CoRun& run : runs) main.push_back(BandwidthFactor(run.own, run.others, burst));
  // Coordinate descent on a convex problem: nothing below zero, no solver needed.
  for (int sweep = 0; sweep < 200; ++sweep)
    for (size_t k = 0; k < 3; ++k) {
      double above = centre[k] / (kSpread[k] * kSpread[k]), below = 1 / (kSpread[k] * kSpread[k]);
      for (size_t i = 0; i < runs.size(); ++i) {
        const Row f = FeaturesOf(runs[i]);
        double rest = runs[i].ratio / main[i] - 1;
        for (size_t j = 0; j < 3; ++j)
          if (j != k) rest -= x[j] * f[j];
        above += rest * f[k] / (kNoise * kNoise);
        below += f[k] * f[k] / (kNoise * kNoise);
      }
      x[k] = std::max(0.0, above / below);
    }
  NeighbourLaw law{x[0], x[1], x[2], burst, 0, 0};
  const double n = static_cast<double>(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const Row f = FeaturesOf(runs[i]);
    const double foretold = main[i] * (1 + x[0] * f[0] + x[1] * f[1] + x[2] * f[2]);
    law.residual += std::pow(std::log(foretold / runs[i].ratio), 2) / n;
    law.doubt += std::pow((foretold - runs[i].ratio) / (std::max(runs[i].ratio, 1.0) - 0.9), 2) / n;
  }
  law.residual = std::sqrt(law.residual);
  law.doubt = std::sqrt(law.doubt);
  return law;
}

}  // namespace

NeighbourLaw FitNeighbours(std::span<const CoRun> runs, const ShareLaw& prior) {
  if (runs.empty()) return {prior.crowding, prior.company, prior.heat, prior.burst, prior.doubt, 0};
  NeighbourLaw best = FitAt(kBursts[0], runs, prior);
  for (const double burst : kBursts)
    if (const auto law = FitAt(burst, runs, prior); law.residual < 0.97 * best.residual) best = law;
  return best;
}

}  // namespace hase::latency

// Column generation by Clp, whose headers stay in this file.
#include "placement/configuration_bound.h"

#include <ClpSimplex.hpp>

#include <algorithm>
#include <numeric>

namespace hase::placement {
namespace {

// min C:  Σ_c t_gc − n_g C ≤ 0,  Σ rate t ≥ 1 in units of each class's amount, C in units of
// `unit_s`. Rows: groups, then classes.
class Master {
 public:
  Master(std::span<const double> amounts, std::span<const double> counts, double unit_s)
      : amounts_(amounts), groups_(counts.size()), unit_s_(unit_s) {
    lp_.setLogLevel(0);
    const int rows = static_cast<int>(groups_ + amounts.size());
    lp_.resize(rows, 0);
    std::vector<int> index(groups_);
    std::iota(index.begin(), index.end(), 0);
    std::vector<double> minus;
    for (const double n : counts) minus.push_back(-n);
    lp_.addColumn(static_cast<int>(groups_), index.data(), minus.data(), 0, COIN_DBL_MAX, 1);
    for (int r = 0; r < rows; ++r) {
      const bool group = static_cast<size_t>(r) < groups_;
      const bool needed = !group && amounts[static_cast<size_t>(r) - groups_] > 0;
      lp_.setRowBounds(r, group ? -COIN_DBL_MAX : (needed ? 1.0 : 0.0), group ? 0 : COIN_DBL_MAX);
    }
  }

  void Add(const Configuration& column) {
    std::vector<int> rows = {static_cast<int>(column.group)};
    std::vector<double> values = {1};
    for (const auto& [k, rate] : column.rates) {
      if (amounts_[k] <= 0) continue;
      rows.push_back(static_cast<int>(groups_ + k));
      values.push_back(rate * unit_s_ / amounts_[k]);
    }
    lp_.addColumn(static_cast<int>(rows.size()), rows.data(), values.data(), 0, COIN_DBL_MAX, 0);
  }

  bool Solve() {
    lp_.primal();
    return lp_.status() == 0;
  }
  double Value() const { return lp_.objectiveValue() * unit_s_; }
  // Seconds per unit of work: what all amounts cost is the value.
  void Prices(std::vector<double>& prices) const {
    const double* duals = lp_.dualRowSolution();
    for (size_t k = 0; k < prices.size(); ++k) {
      prices[k] = amounts_[k] > 0 ? std::max(0.0, duals[groups_ + k]) * unit_s_ / amounts_[k] : 0;
    }
  }
  // What a configuration of the group must earn per second to be of use.
  double Worth(size_t group) const { return -lp_.dualRowSolution()[group]; }

  std::span<const double> amounts_;
  size_t groups_;
  double unit_s_;
  ClpSimplex lp_;
};

}  // namespace

ConfigurationBound BoundByConfigurations(std::span<const double> amounts,
                                         std::span<const double> counts,
                                         ConfigurationPricer& pricer, double tolerance,
                                         int most_rounds) {
  constexpr double kSmoothing = 0.5;  // towards the best prices so far
  constexpr int kMostIdle = 10;
  ConfigurationBound best;
  std::vector<Configuration> found = pricer.Alone();
  // What nobody can do is left out; the rest, done alone in turn, sets the unit of time.
  std::vector<double> speed(amounts.size(), 0), wanted(amounts.begin(), amounts.end());
  for (const Configuration& c : found) {
    for (const auto& [k, rate] : c.rates) speed[k] += rate * counts[c.group];
  }
  double unit_s = 0;
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (speed[k] <= 0) wanted[k] = 0;
    if (wanted[k] > 0) unit_s += wanted[k] / speed[k];
  }
  if (unit_s <= 0) return best;
  Master master(wanted, counts, unit_s);
  std::vector<double> prices(wanted.size());
  int idle = 0;  // rounds in a row in which the two came no nearer
  double least_apart = 1;
  for (; best.rounds < most_rounds; ++best.rounds) {
    for (const Configuration& column : found) master.Add(column);
    if (!master.Solve() || best.makespan_s >= master.Value() * (1 - tolerance)) break;
    const double apart = 1 - best.makespan_s / master.Value();
    idle = apart < least_apart - tolerance / 20 ? 0 : idle + 1;
    least_apart = std::min(least_apart, apart);
    if (idle > kMostIdle) break;
    master.Prices(prices);
    // Nothing new at smoothed prices: those of the programme itself are next.
    if (!best.prices.empty() && !found.empty()) {
      for (size_t k = 0; k < prices.size(); ++k) {
        prices[k] += kSmoothing * (best.prices[k] - prices[k]);
      }
    }
    found.clear();
    double earned = 0, owed = 0;
    for (size_t g = 0; g < counts.size(); ++g) {
      earned += counts[g] * pricer.MostEarned(g, prices, master.Worth(g), found);
    }
    for (size_t k = 0; k < prices.size(); ++k) owed += prices[k] * wanted[k];
    if (earned <= 0 || owed <= earned * best.makespan_s) continue;
    best.makespan_s = owed / earned;
    best.prices = prices;
    for (double& y : best.prices) y /= earned;
  }
  // Prices are checked, not believed: the solver's tolerance gains nothing. The millionth is for
  // rounding.
  best.makespan_s *= 1 - 1e-6;
  return best;
}

}  // namespace hase::placement

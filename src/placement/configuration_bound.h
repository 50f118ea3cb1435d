// The configuration bound: a lower bound of the makespan that counts sharing as it is, not as if
// every card had the best company there is all the time.
//
// At any moment a card is in one configuration: some set of residents on some shares, each of which
// gets so much of its work done per second. However a schedule looks, let t_gc be the seconds that
// cards of group g spend in configuration c until it ends at C. Then
//     Σ_c t_gc ≤ n_g C    for each group g of n_g alike cards,
//     Σ_gc rate_gck t_gc ≥ amount_k    for each class k of work,
// so the least C for which any t ≥ 0 does this bounds every schedule from below (the configuration
// programme of Gilmore and Gomory 1961, of Karmarkar and Karp 1982 for packing).
//
// It has far too many columns to be written down. By duality every vector of prices y ≥ 0 gives a
// bound by itself:  C ≥ Σ_k amount_k y_k / Σ_g n_g V_g(y),  with V_g(y) the most that a card of the
// group can earn per second: Σ_k y_k amount_k is at most what the cards earn until C. So columns
// are generated (with Wentges' smoothed prices, 1997), the best bound of all rounds counts, and it
// is valid wherever the rounds end, also where V_g is only known from above.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hase::placement {

// What a card of a group does per second in one configuration: (class of work, rate).
struct Configuration {
  size_t group = 0;
  std::vector<std::pair<size_t, double>> rates;
};

// What configurations exist; the caller knows the world.
class ConfigurationPricer {
 public:
  virtual ~ConfigurationPricer() = default;
  // Each class of work alone on each group that can do it.
  virtual std::vector<Configuration> Alone() = 0;
  // Not less than what any configuration of the group earns per second at these prices (≥ 0, by
  // class). Appends some that earn more than `worth` to `found`.
  virtual double MostEarned(size_t group, std::span<const double> prices, double worth,
                            std::vector<Configuration>& found) = 0;
};

struct ConfigurationBound {
  double makespan_s = 0;       // 0: nothing is claimed
  std::vector<double> prices;  // by class, such that all cards together earn at most 1 per second:
                               // any part of the work costs at least its price in seconds
  int rounds = 0;
};

// `counts`: cards by group (parts of cards are fine). A class without a configuration that does it
// gets no price. Ends when the bound is within `tolerance` of the programme's value, or after
// `most_rounds`.
ConfigurationBound BoundByConfigurations(std::span<const double> amounts,
                                         std::span<const double> counts,
                                         ConfigurationPricer& pricer, double tolerance = 0.01,
                                         int most_rounds = 120);

}  // namespace hase::placement

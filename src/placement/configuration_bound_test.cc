#include "placement/configuration_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hase::placement {
namespace {

// All configurations written down.
class Listed final : public ConfigurationPricer {
 public:
  Listed(std::vector<Configuration> alone, std::vector<Configuration> together)
      : alone_(std::move(alone)), all_(alone_) {
    all_.insert(all_.end(), together.begin(), together.end());
  }
  std::vector<Configuration> Alone() override { return alone_; }
  double MostEarned(size_t group, std::span<const double> prices, double worth,
                    std::vector<Configuration>& found) override {
    double most = 0;
    for (const Configuration& c : all_) {
      if (c.group != group) continue;
      double value = 0;
      for (const auto& [k, rate] : c.rates) value += rate * prices[k];
      most = std::max(most, value);
      if (value > worth * (1 + 1e-9)) found.push_back(c);
    }
    return most;
  }

 private:
  std::vector<Configuration> alone_, all_;
};

// Two kinds, 100 s of each alone on the one card. Together each runs at 0.8, twice the same kind at
// 0.5: all of it in pairs takes 125 s. The best company of any pair all the time would say the
// same; with 100 s and 20 s of work, that would claim 75 s, but the second kind is gone after 25 s.
TEST(ConfigurationBound, CompanyEndsWhenItsWorkIsDone) {
  const std::vector<double> one = {1};
  Listed pricer({{0, {{0, 1}}}, {0, {{1, 1}}}}, {{0, {{0, 0.8}, {1, 0.8}}}});
  const std::vector<double> even = {100, 100}, uneven = {100, 20};
  EXPECT_NEAR(BoundByConfigurations(even, one, pricer, 1e-4).makespan_s, 125, 0.02);
  const auto bound = BoundByConfigurations(uneven, one, pricer, 1e-4);
  EXPECT_NEAR(bound.makespan_s, 105, 0.02);  // 25 s together, 80 s alone
  EXPECT_NEAR(100 * bound.prices[0] + 20 * bound.prices[1], bound.makespan_s, 0.02);
}

TEST(ConfigurationBound, WorkGoesWhereItCostsLeast) {
  // Two slow cards and half a fast one, which is four times as fast for kind 0 only.
  const std::vector<double> cards = {2, 0.5}, amounts = {100, 100};
  Listed pricer({{0, {{0, 1}}}, {0, {{1, 1}}}, {1, {{0, 4}}}, {1, {{1, 1}}}}, {});
  // Kind 1 on the slow cards takes 50 s, kind 0 on the fast one 50 s.
  EXPECT_NEAR(BoundByConfigurations(amounts, cards, pricer, 1e-4).makespan_s, 50, 0.01);
}

TEST(ConfigurationBound, ClaimsNothingOfWhatCannotBeDone) {
  const std::vector<double> one = {1}, amounts = {10, 10};
  Listed pricer({{0, {{0, 1}}}}, {});
  EXPECT_NEAR(BoundByConfigurations(amounts, one, pricer, 1e-4).makespan_s, 10, 1e-3);
  Listed nothing({}, {});
  EXPECT_EQ(BoundByConfigurations(amounts, one, nothing).makespan_s, 0);
}

}  // namespace
}  // namespace hase::placement

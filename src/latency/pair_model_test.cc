#include "latency/pair_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/rng.h"
#include "latency/training/pair_evaluation.h"

namespace hase::latency {
namespace {

// Slowdowns that come from contention for two resources, not from the model's own form.
double True(int i, int j) {
  const auto use = [](int job, double of) { return 0.5 + 0.45 * std::sin(1.7 * job + of); };
  const double compute = std::max(1.0, use(i, 0) + use(j, 0));
  const double memory = std::max(1.0, use(i, 2) + use(j, 2));
  const double part = use(i, 4);
  return part * compute + (1 - part) * memory;
}

std::vector<PairObservation> Pairs(int jobs) {
  std::vector<PairObservation> out;
  for (int i = 0; i < jobs; ++i) {
    for (int j = 0; j < jobs; ++j) {
      out.push_back({std::string(1, static_cast<char>('a' + i)),
                     std::string(1, static_cast<char>('a' + j)), True(i, j)});
    }
  }
  return out;
}

TEST(PairModel, HeldOutPairsAreCloserThanWithoutWhatMultiplies) {
  const auto rows = EvaluatePairs({.cards = {{"card", Pairs(16)}}, .dropped = {}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].pairs, 136);
  EXPECT_LT(rows[0].model.mape, 0.6 * rows[0].two_sided.mape);
  EXPECT_LT(rows[0].model.mape, 0.5 * rows[0].job_factor.mape);
  EXPECT_LT(rows[0].model.mape, 0.5 * rows[0].constant.mape);
}

TEST(PairModel, AJobNeverMetIsAverageAndNothingSpeedsUp) {
  const auto model = PairModel::Fit(Pairs(8));
  EXPECT_FALSE(model.Knows("z"));
  EXPECT_GE(model.Slowdown("z", "y"), 1);
  EXPECT_LT(model.Slowdown("z", "y"), 2);
  for (const auto& p : Pairs(8)) EXPECT_GE(model.Slowdown(p.job, p.beside), 1);
  EXPECT_EQ(PairModel::Fit({}).Slowdown("a", "b"), 1);
}

TEST(PairModel, BothOrdersOfAPairFallIntoOneFold) {
  EXPECT_EQ(PairFold("k80", "a", "b"), PairFold("k80", "b", "a"));
}

TEST(PairModel, GavelsPairsAreBetterThanOneFactorPerJob) {
  const std::filesystem::path data = "../shared/data/interference/gavel";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not here";
  const auto rows = ReadPairRows({{data}});
  ASSERT_TRUE(rows) << rows.error().message;
  for (const auto& g : EvaluatePairs(*rows)) {
    EXPECT_GT(g.rows, 200) << g.card;
    EXPECT_LT(g.model.mape, g.job_factor.mape) << g.card;
    EXPECT_LT(g.model.mape, g.two_sided.mape) << g.card;
    EXPECT_LT(g.model.mape, g.constant.mape) << g.card;
  }
}

}  // namespace
}  // namespace hase::latency

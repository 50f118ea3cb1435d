#include "latency/slowdown.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace hase::latency {
namespace {

Demand RandomDemand(Rng& rng) {
  const double a = rng.Uniform(), b = rng.Uniform(), c = rng.Uniform(), sum = a + b + c;
  return {a / sum, b / sum, c / sum, rng.Uniform(), rng.Uniform(), rng.Uniform(0.05, 1)};
}

SharingLaw RandomLaw(Rng& rng) {
  SharingLaw law;
  law.kind = static_cast<SharingKind>(rng.UniformInt(0, 3));
  law.sm_count = static_cast<int>(rng.UniformInt(1, 132));
  law.quota = rng.Uniform(0.1, 1);
  return law;
}

std::vector<Demand> RandomOthers(Rng& rng) {
  std::vector<Demand> others(static_cast<size_t>(rng.UniformInt(0, 5)));
  for (auto& other : others) other = RandomDemand(rng);
  return others;
}

constexpr double kTiny = 1e-9;

TEST(Slowdown, WholeDeviceAloneIsOne) {
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    Demand d = RandomDemand(rng);
    d.share = 1;
    EXPECT_DOUBLE_EQ(Slowdown(d, {}, {}, RandomLaw(rng)), 1);
  }
}

TEST(Slowdown, NeverBelowOneAndNeverLessWithAnotherTenantOrMoreStrangers) {
  Rng rng(2);
  for (int i = 0; i < 5000; ++i) {
    const SharingLaw law = RandomLaw(rng);
    const Demand d = RandomDemand(rng);
    auto others = RandomOthers(rng);
    ForeignLoad foreign{rng.Uniform(), rng.Uniform(), 0, 0, true};
    const double before = Slowdown(d, others, foreign, law);
    EXPECT_GE(before, 1);
    ForeignLoad more = foreign;
    more.sm += rng.Uniform(0, 2);
    more.dram += rng.Uniform();
    EXPECT_GE(Slowdown(d, others, more, law), before - kTiny);
    others.push_back(RandomDemand(rng));
    EXPECT_GE(Slowdown(d, others, foreign, law), before - kTiny);
  }
}

TEST(Slowdown, MoreShareNeverHurts) {
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    const SharingLaw law = RandomLaw(rng);
    Demand d = RandomDemand(rng);
    const auto others = RandomOthers(rng);
    const ForeignLoad foreign{rng.Uniform(), rng.Uniform(), 0, 0, true};
    const double less = Slowdown(d, others, foreign, law);
    d.share = rng.Uniform(d.share, 1);
    EXPECT_LE(Slowdown(d, others, foreign, law), less + kTiny);
  }
}

TEST(Slowdown, CpuShareScalesEveryTerm) {
  const SharingLaw law{.kind = SharingKind::kCpu, .quota = 0.6};
  const Demand d{0.5, 0.3, 0.2, 1, 0.4, 0.25};
  EXPECT_NEAR(Slowdown(d, {}, {}, law), 4, 1e-12);
}

TEST(Slowdown, QuotasOnOneCoreThatSumToMoreThanItAreServedMaxMinFair) {
  const SharingLaw law{.kind = SharingKind::kCpu, .cache_penalty = 0};
  const auto tenant = [](double share) { return Demand{1, 0, 0, 1, 0, share}; };
  // 0.8 beside 0.6: half each. 0.8 beside 0.3: 0.7 is left.
  EXPECT_NEAR(Slowdown(tenant(0.8), std::vector{tenant(0.6)}, {}, law), 2, 1e-12);
  EXPECT_NEAR(Slowdown(tenant(0.8), std::vector{tenant(0.3)}, {}, law), 1 / 0.7, 1e-12);
}

TEST(Slowdown, AStrangerTakesOnlyWhatThePartitionsQuotaWouldHaveNeeded) {
  const Demand d{1, 0, 0, 1, 0, 1};
  const ForeignLoad busy{1, 0, 0, 0, true};
  EXPECT_NEAR(Slowdown(d, {}, busy, {.kind = SharingKind::kCpu, .quota = 1}), 2, 1e-12);
  EXPECT_NEAR(Slowdown(d, {}, busy, {.kind = SharingKind::kCpu, .quota = 0.6}), 1.2, 1e-12);
  EXPECT_NEAR(Slowdown(d, {}, busy, {.kind = SharingKind::kCpu, .quota = 0.3}), 1, 1e-12);
  // A reading that is not valid is not believed.
  EXPECT_EQ(Slowdown(d, {}, {1, 0, 0, 0, false}, {.kind = SharingKind::kCpu}), 1);
}

TEST(Slowdown, SpaceShareCutsComputeInWholeProcessorsAndSparesBandwidth) {
  const SharingLaw law{.kind = SharingKind::kSpace, .sm_count = 10, .saturation_share = 0.4};
  EXPECT_NEAR(Slowdown({1, 0, 0, 1, 0, 0.55}, {}, {}, law), 2, 1e-12);  // 5 of 10
  EXPECT_NEAR(Slowdown({0, 1, 0, 1, 1, 0.5}, {}, {}, law), 1, 1e-12);
  EXPECT_NEAR(Slowdown({0, 0, 1, 1, 1, 0.1}, {}, {}, law), 1, 1e-12);  // launch-bound
}

TEST(Slowdown, MigCutsBandwidthTooAndFeelsNobody) {
  const SharingLaw law{.kind = SharingKind::kMig, .sm_count = 10};
  const Demand neighbour{0.5, 0.5, 0, 1, 1, 0.5};
  EXPECT_NEAR(Slowdown({1, 0, 0, 1, 0, 0.5}, std::vector{neighbour}, {}, law), 2, 1e-12);
  EXPECT_NEAR(Slowdown({0, 1, 0, 1, 1, 0.5}, std::vector{neighbour}, {}, law), 2, 1e-12);
  EXPECT_NEAR(Slowdown({0, 1, 0, 1, 0.4, 0.5}, {}, {}, law), 1, 1e-12);  // fits its slice
}

TEST(FairPart, GivesSmallWantsWholeAndSplitsTheRest) {
  EXPECT_DOUBLE_EQ(FairPart(1, std::vector{0.2, 1.0}, 1), 0.4);
  EXPECT_DOUBLE_EQ(FairPart(0.1, std::vector{1.0, 1.0}, 1), 0.1);
  EXPECT_DOUBLE_EQ(FairPart(1, {}, 1), 1);
}

}  // namespace
}  // namespace hase::latency

#include "latency/speed_factor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace hase::latency {
namespace {

// Two cards of one type run `jobs` jobs each of five models whose predictions are off by up to
// some tens of per cent, with noise of 5 % and one outlier in 20 (a run three times as long).
SpeedFactors RunTwins(uint64_t seed, double second_is_slower_by, int jobs) {
  Rng rng(seed);
  double bias[5];
  for (double& b : bias) b = 0.15 * rng.Normal();
  SpeedFactors factors;
  for (int i = 0; i < jobs; ++i) {
    for (uint32_t card = 0; card < 2; ++card) {
      const auto model = static_cast<uint32_t>(rng.UniformInt(0, 4));
      double observed = std::exp(bias[model] + 0.05 * rng.Normal());
      if (card == 1) observed *= 1 + second_is_slower_by;
      if (rng.Uniform() < 0.05) observed *= 3;
      factors.Observe(DeviceId(card), DeviceTypeId(0), ModelId(model), 1, observed);
    }
  }
  return factors;
}

TEST(SpeedFactors, ACardTenPerCentSlowerIsRecognisedWithin30Jobs) {
  int recognised = 0;
  double ratio = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto factors = RunTwins(seed, 0.10, 30);
    recognised += factors.Of(DeviceId(1)).flagged;
    ratio += factors.Of(DeviceId(1)).factor / factors.Of(DeviceId(0)).factor / 200;
  }
  EXPECT_GE(recognised, 190);
  EXPECT_NEAR(ratio, 1.10, 0.02);
}

TEST(SpeedFactors, EqualTwinsAreFlaggedInAtMostOnePerCent) {
  int flagged = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    flagged += RunTwins(seed, 0, 30).Of(DeviceId(1)).flagged;
  }
  EXPECT_LE(flagged, 10);
}

TEST(SpeedFactors, ForgetsSlowly) {
  SpeedFactors factors;
  const auto run = [&](int jobs, double second) {
    for (int i = 0; i < jobs; ++i) {
      factors.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 1, 1);
      factors.Observe(DeviceId(1), DeviceTypeId(0), ModelId(0), 1, second);
    }
  };
  run(64, 1.2);
  const double before = factors.Of(DeviceId(1)).factor;
  run(3, 1.0);
  EXPECT_NEAR(factors.Of(DeviceId(1)).factor, before, 0.02);
  run(100, 1.0);
  EXPECT_NEAR(factors.Of(DeviceId(1)).factor, 1, 0.01);
}

TEST(SpeedFactors, WhatAllCardsShareIsTheModelsError) {
  SpeedFactors factors;
  for (int i = 0; i < 20; ++i) {
    for (uint32_t card = 0; card < 3; ++card) {
      factors.Observe(DeviceId(card), DeviceTypeId(0), ModelId(7), 1, 1.3);
    }
  }
  EXPECT_NEAR(factors.ModelFactor(DeviceTypeId(0), ModelId(7)), 1.3, 0.01);
  EXPECT_NEAR(factors.Of(DeviceId(2)).factor, 1, 0.01);
  EXPECT_EQ(factors.ModelFactor(DeviceTypeId(0), ModelId(8)), 1);
  EXPECT_EQ(factors.Of(DeviceId(99)).factor, 1);
}

// A card without twins keeps what its type's predictions are off by; one outlier does not carry a
// new card away.
TEST(SpeedFactors, ALoneCardIsCorrectedByWhatItsJobsHaveInCommon) {
  SpeedFactors factors;
  EXPECT_EQ(factors.DeviceFactor(DeviceId(0)), 1);
  for (int i = 0; i < 30; ++i) {
    factors.Observe(DeviceId(0), DeviceTypeId(0), ModelId(static_cast<uint32_t>(i % 3)), 1, 1.2);
  }
  EXPECT_NEAR(factors.DeviceFactor(DeviceId(0)), 1.2, 0.02);
  SpeedFactors fresh;
  fresh.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 1, 3);
  EXPECT_LT(fresh.DeviceFactor(DeviceId(0)), 1.8);
  for (int i = 0; i < 10; ++i) fresh.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 1, 1);
  EXPECT_NEAR(fresh.DeviceFactor(DeviceId(0)), 1, 0.03);
}

TEST(SpeedFactors, RunsThatSharedTheCardSayLess) {
  SpeedFactors factors;
  for (int i = 0; i < 20; ++i) {
    factors.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 1, 1);
    factors.Observe(DeviceId(1), DeviceTypeId(0), ModelId(0), 1, i % 2 == 0 ? 1.0 : 1.1,
                    i % 2 == 0 ? 1.0 : 0.1);
  }
  EXPECT_LT(factors.Of(DeviceId(1)).factor / factors.Of(DeviceId(0)).factor, 1.03);
}

TEST(SpeedFactors, IgnoresTimesThatAreNone) {
  SpeedFactors factors;
  factors.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 0, 1);
  factors.Observe(DeviceId(0), DeviceTypeId(0), ModelId(0), 1, std::nan(""));
  EXPECT_EQ(factors.Of(DeviceId(0)).jobs, 0);
}

}  // namespace
}  // namespace hase::latency

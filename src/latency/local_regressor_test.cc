#include "latency/local_regressor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace hase::latency {
namespace {

double Truth(double a, double b) { return 0.5 * std::sin(a) + 0.2 * b; }

LocalRegressor Measured(int points, uint64_t seed) {
  Rng rng(seed);
  LocalRegressor r;
  for (int i = 0; i < points; ++i) {
    const double a = rng.Uniform(0, 4), b = rng.Uniform(0, 4);
    r.Add({a, b}, Truth(a, b) + 0.02 * rng.Normal(), static_cast<uint32_t>(i % 10));
  }
  return r;
}

TEST(LocalRegressor, FollowsASmoothLaw) {
  const auto r = Measured(300, 1);
  Rng rng(2);
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const double a = rng.Uniform(0.3, 3.7), b = rng.Uniform(0.3, 3.7);
    worst = std::max(worst, std::abs(r.Predict(std::vector{a, b}).mean - Truth(a, b)));
  }
  EXPECT_LT(worst, 0.08);
}

TEST(LocalRegressor, ItsVarianceTellsNearFromFar) {
  const auto r = Measured(300, 1);
  const auto near = r.Predict(std::vector{2.0, 2.0}), far = r.Predict(std::vector{40.0, 2.0});
  EXPECT_LT(near.variance * 5, far.variance);
  EXPECT_GT(far.nearest_distance, 30);
  EXPECT_TRUE(std::isfinite(far.mean));
}

TEST(LocalRegressor, AGroupLeftOutIsNotUsed) {
  LocalRegressor r;
  r.Add({0.0}, 1.0, 1);
  r.Add({1.0}, 0.0, 2);
  const std::vector<uint32_t> without = {1}, all = {1, 2};
  EXPECT_GT(r.Predict(std::vector{0.0}).mean, 0.8);
  EXPECT_LT(r.Predict(std::vector{0.0}, without).mean, 0.6);
  EXPECT_EQ(r.Predict(std::vector{0.0}, all).mean, 0);
  EXPECT_GT(r.Predict(std::vector{0.0}, all).nearest_distance, 1e8);
}

TEST(LocalRegressor, EqualPointsAreNoTrouble) {
  LocalRegressor r;
  for (int i = 0; i < 100; ++i) r.Add({1.0, 1.0}, i % 2 ? 0.9 : 1.1, 0);
  EXPECT_NEAR(r.Predict(std::vector{1.0, 1.0}).mean, 1.0, 0.05);
}

}  // namespace
}  // namespace hase::latency

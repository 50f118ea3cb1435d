#include "latency/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace hase::latency {
namespace {

TEST(Spread, QuantileAndCdfAreInverse) {
  const Spread s{10, 4};
  for (const double p : {0.001, 0.01, 0.1, 0.5, 0.9, 0.95, 0.999}) {
    EXPECT_NEAR(s.Cdf(s.Quantile(p)), p, 1e-9) << p;
  }
  EXPECT_EQ((Spread{3, 0}).Quantile(0.99), 3);
}

// The joint model against drawing it: shared error once per job, independent error once per batch.
TEST(Estimate, JobQuantilesMatchSampling) {
  Estimate e;
  e.latency_s = 0.01;
  e.shared_sigma = 0.08;
  e.independent_sigma = 0.2;
  Rng rng(3);
  std::vector<double> totals;
  for (int draw = 0; draw < 20000; ++draw) {
    const double shared = std::exp(e.shared_sigma * rng.Normal());
    double sum = 0;
    for (int i = 0; i < 50; ++i) {
      sum += e.latency_s * shared * std::exp(e.independent_sigma * rng.Normal());
    }
    totals.push_back(sum);
  }
  std::sort(totals.begin(), totals.end());
  for (const double p : {0.1, 0.5, 0.9, 0.95}) {
    EXPECT_NEAR(e.Runs(50).Quantile(p) / totals[static_cast<size_t>(p * 20000)], 1, 0.01) << p;
  }
}

}  // namespace
}  // namespace hase::latency

// The share law's shape, its correction by profile points, and its error on the ParvaGPU surfaces.
#include "latency/service_latency.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "latency/parvagpu.h"
#include "latency/share_fit.h"

namespace hase::latency {
namespace {

using cluster::ShareMode;

Estimate Balanced() {
  Estimate e;
  e.latency_s = 0.010;
  e.compute_part = 0.6;
  e.bandwidth_part = 0.3;
  e.launch_part = 0.1;
  e.sm_demand = 0.6;
  e.dram_demand = 0.3;
  return e;
}

ShareGrant Mps(int milli) { return {MilliShare(milli), ShareMode::kMps, 1}; }

TEST(ServiceLatency, WholeDeviceIsTheEstimate) {
  const ShareLaw law;
  const auto terms = TermsOf(Balanced(), law);
  EXPECT_NEAR(RunSeconds(terms, law, 80, Mps(1000)), 0.010, 1e-9);
  EXPECT_NEAR(RunSeconds(terms, law, 80, {}), 0.010, 1e-9);
}

TEST(ServiceLatency, NeverFasterWithLess) {
  const ShareLaw law;
  const auto terms = TermsOf(Balanced(), law);
  double last = 0;
  for (int milli = 1000; milli >= 50; milli -= 25) {
    const double t = RunSeconds(terms, law, 80, Mps(milli));
    EXPECT_GE(t, last - 1e-12) << milli;
    last = t;
  }
}

TEST(ServiceLatency, MpsKeepsBandwidthAndMigCutsIt) {
  ShareLaw law;
  ServiceTerms dram;
  dram.dram_s = 0.008;
  EXPECT_NEAR(RunSeconds(dram, law, 0, Mps(500)), 0.008, 1e-9);  // above p_sat
  EXPECT_NEAR(RunSeconds(dram, law, 0, Mps(175)), 0.016, 1e-9);  // half of p_sat
  EXPECT_NEAR(RunSeconds(dram, law, 0, {MilliShare(143), ShareMode::kMig, 1}), 0.064, 1e-9);
  EXPECT_NEAR(RunSeconds(dram, law, 0, {MilliShare(429), ShareMode::kMig, 1}), 0.016, 1e-9);
}

TEST(ServiceLatency, QuotaScalesEveryTerm) {
  const ShareLaw law;
  const auto terms = TermsOf(Balanced(), law);
  EXPECT_NEAR(RunSeconds(terms, law, 2, {MilliShare(250), ShareMode::kCpuQuota, 1}), 0.040, 1e-9);
}

TEST(ServiceLatency, LaunchDoesNotDependOnTheShare) {
  ShareLaw law;
  ServiceTerms launch;
  launch.launch_s = 0.005;
  EXPECT_DOUBLE_EQ(RunSeconds(launch, law, 80, Mps(100)), 0.005);
}

TEST(ServiceLatency, SharesComeInWholeSms) {
  ShareLaw law;
  ServiceTerms compute;
  compute.compute_s = 0.010;
  // 40 SMs: 12.4 % and 11 % both give four SMs, 12.5 % gives five.
  EXPECT_DOUBLE_EQ(RunSeconds(compute, law, 40, Mps(124)), 0.100);
  EXPECT_DOUBLE_EQ(RunSeconds(compute, law, 40, Mps(110)), 0.100);
  EXPECT_DOUBLE_EQ(RunSeconds(compute, law, 40, Mps(125)), 0.080);
}

TEST(ServiceLatency, TermsSumToTheRun) {
  const ShareLaw law;
  auto terms = TermsOf(Balanced(), law);
  terms.serial_s = 0.001;
  for (const int processes : {1, 3}) {
    const ShareGrant grant{MilliShare(429), ShareMode::kMig, processes};
    const auto by = RunSecondsByTerm(terms, law, 108, grant);
    EXPECT_NEAR(by.compute_s + by.dram_s + by.launch_s + by.serial_s,
                RunSeconds(terms, law, 108, grant), 1e-12);
    EXPECT_GE(by.launch_s, 0);
  }
}

TEST(ServiceLatency, NeighboursOnBandwidthSlowDown) {
  const ShareLaw law;
  ServiceTerms dram;
  dram.dram_s = 0.008;
  const Neighbour calm{0.1, 0.1, 0, 0.1}, hungry{0.9, 1.0, 0, 0.9};
  const double a = Interference(dram, law, 80, Mps(500), std::vector{calm});
  const double b = Interference(dram, law, 80, Mps(500), std::vector{hungry});
  EXPECT_GE(a, 1);
  EXPECT_GT(b, 1.8);
  EXPECT_EQ(Interference(dram, law, 80, {MilliShare(429), ShareMode::kMig, 1}, std::vector{hungry}),
            1);
}

TEST(ShareFit, NoPointsCorrectNothing) {
  const auto c = FitCorrection(UnknownModel, 0, {}, UnknownModelPrior());
  EXPECT_EQ(c.compute, 1);
  EXPECT_EQ(c.serial_per_item_s, 0);
}

TEST(ShareFit, RecoversAShiftedSurface) {
  ShareLaw law;
  law.overlap = 3;
  const auto base = [](int64_t batch) {
    ServiceTerms t;
    t.compute_s = 1e-3 * static_cast<double>(batch);
    t.dram_s = 0.3e-3 * static_cast<double>(batch);
    t.launch_s = 4e-3;
    t.parallelism = 1;
    return t;
  };
  Correction truth;
  truth.compute = 1.4;
  truth.dram = 0.7;
  truth.launch = 1.2;
  truth.law = law;
  const auto seconds = [&](int64_t batch, int milli) {
    return RunSeconds(truth.Apply(base(batch), batch), law, 80, Mps(milli));
  };
  std::vector<SurfacePoint> points;
  for (const int64_t batch : {1, 8, 32})
    for (const int milli : {200, 500, 1000})
      points.push_back({batch, Mps(milli), seconds(batch, milli)});
  const auto c = FitCorrection(base, 80, points, {});
  for (const int64_t batch : {2, 16})
    for (const int milli : {100, 300, 800}) {
      const double t = RunSeconds(c.Apply(base(batch), batch), c.law, 80, Mps(milli));
      EXPECT_NEAR(t / seconds(batch, milli), 1, 0.05) << batch << " at " << milli;
    }
}

TEST(Parva, NinePointsPerModel) {
  const char* folder = "../shared/data/interference/parvagpu";
  if (!std::filesystem::exists(std::string(folder) + "/mig_mps_profile.csv") &&
      !std::filesystem::exists(std::string(folder) + "/mig_mps_profile.csv.xz"))
    GTEST_SKIP() << folder << " is not here: the measured surfaces are not part of the project";
  const auto profile = ReadParvaProfile(folder);
  ASSERT_TRUE(profile) << profile.error().message;
  int scored = 0;
  double sum = 0;
  for (const auto& e : ScoreParva(*profile)) {
    std::printf("  %-12s %d points, %3d rows: %.1f %%\n", e.model.c_str(), e.fitted, e.scored,
                100 * e.mape);
    scored += e.scored;
    sum += e.mape * e.scored;
  }
  ASSERT_GT(scored, 0);
  std::printf("  all rows: %.2f %%\n", 100 * sum / scored);
  EXPECT_LE(sum / scored, 0.10);
}

}  // namespace
}  // namespace hase::latency

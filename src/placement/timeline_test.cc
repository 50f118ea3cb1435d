#include "placement/timeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "placement/forecast.h"

namespace hase::placement {
namespace {

// Whether the hold fits, by looking at every nanosecond.
bool FitsByEye(const std::vector<Hold>& holds, Bytes total, const Hold& wanted) {
  for (int64_t t = wanted.from.value(); t < wanted.until.value(); ++t) {
    int64_t share = wanted.share.value(), memory = wanted.memory.value();
    for (const Hold& h : holds) {
      if (h.from.value() > t || h.until.value() <= t) continue;
      share += h.share.value();
      memory += h.memory.value();
    }
    if (share > 1000 || memory > total.value()) return false;
  }
  return true;
}

Hold RandomHold(Rng& rng, uint32_t job) {
  const int64_t from = rng.UniformInt(0, 30);
  return {JobId(job),
          Nanos(from),
          Nanos(from + rng.UniformInt(1, 12)),
          MilliShare(250 * rng.UniformInt(1, 4)),
          Bytes(rng.UniformInt(1, 6)),
          0};
}

TEST(Timeline, EarliestFitAgreesWithBruteForce) {
  Rng rng(7);
  const DeviceId device(1);
  const Bytes total(8);
  Timeline timeline;
  int gaps_used = 0;
  for (int round = 0; round < 2000; ++round) {
    timeline.Clear(2);
    std::vector<Hold> holds;
    Nanos last;
    for (uint32_t j = 0; j < 8; ++j) {
      const Hold hold = RandomHold(rng, j);
      ASSERT_EQ(timeline.Fits(device, total, hold), FitsByEye(holds, total, hold));
      if (!FitsByEye(holds, total, hold)) continue;
      timeline.Reserve(device, hold);
      holds.push_back(hold);
      last = std::max(last, hold.until);
      if (rng.Uniform() < 0.2) {
        const JobId gone = holds[static_cast<size_t>(rng.UniformInt(0, std::ssize(holds) - 1))].job;
        EXPECT_EQ(timeline.Release(device, gone), 1);
        std::erase_if(holds, [&](const Hold& h) { return h.job == gone; });
      }
    }
    EXPECT_EQ(timeline.Holds(device).size(), holds.size());
    Hold wanted = RandomHold(rng, 99);
    const Nanos duration = wanted.until - wanted.from;
    Nanos expected = wanted.from;
    for (;; expected += Nanos(1)) {
      wanted.from = expected;
      wanted.until = expected + duration;
      if (FitsByEye(holds, total, wanted)) break;
    }
    const Hold& w = wanted;
    const Nanos asked = Nanos(rng.UniformInt(0, 30));
    Nanos by_eye = asked;
    for (Hold h = w;; by_eye += Nanos(1)) {
      h.from = by_eye;
      h.until = by_eye + duration;
      if (FitsByEye(holds, total, h)) break;
    }
    ASSERT_EQ(timeline.EarliestFit(device, total, duration, w.share, w.memory, asked), by_eye);
    gaps_used += by_eye > asked && by_eye < last;
  }
  EXPECT_GT(gaps_used, 100);  // the cases do use gaps between holds
}

TEST(Timeline, WhatExceedsTheDeviceNeverFits) {
  Timeline timeline;
  timeline.Clear(1);
  EXPECT_EQ(timeline.EarliestFit(DeviceId(0), Bytes(4), Nanos(1), kWholeDevice, Bytes(5), Nanos(0)),
            Nanos::Max());
}

TEST(Timeline, ClearForgetsWithoutTouchingDevices) {
  Timeline timeline;
  timeline.Clear(1);
  timeline.Reserve(DeviceId(0), {JobId(0), Nanos(0), Nanos(5), kWholeDevice, Bytes(1), 0});
  timeline.Clear(1);
  EXPECT_TRUE(timeline.Holds(DeviceId(0)).empty());
  EXPECT_EQ(timeline.Release(DeviceId(0), JobId(0)), 0);
}

TEST(Timeline, ChainsAddMoments) {
  Timeline timeline;
  timeline.Clear(1);
  const Nanos now = FromSeconds(100);
  const latency::Spread residents{10, 4};
  timeline.Reserve(DeviceId(0),
                   {JobId(0), FromSeconds(110), FromSeconds(130), kWholeDevice, Bytes(0), 9});
  const auto free = timeline.FreeBy(DeviceId(0), now, FromSeconds(130), residents);
  EXPECT_NEAR(free.mean_s, 30, 1e-9);
  EXPECT_NEAR(free.variance_s2, 13, 1e-9);
  // A start before the hold does not wait for it.
  EXPECT_NEAR(timeline.FreeBy(DeviceId(0), now, FromSeconds(110), residents).variance_s2, 4, 1e-9);
}

double DrawLogNormal(Rng& rng, const latency::Spread& s) {
  const double v = std::log1p(s.variance_s2 / (s.mean_s * s.mean_s));
  return std::exp(std::log(s.mean_s) - v / 2 + std::sqrt(v) * rng.Normal());
}

TEST(Timeline, JointFinishMatchesSampling) {
  Rng rng(3);
  const latency::Spread times[] = {{10, 4}, {9, 9}, {11, 1}};
  constexpr int kDraws = 40'000;
  const double t95 = QuantileOfAll(times, 0.95);
  int by_12 = 0, by_t95 = 0;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    double last = 0;
    for (const auto& s : times) last = std::max(last, DrawLogNormal(rng, s));
    by_12 += last <= 12;
    by_t95 += last <= t95;
    sum += last;
  }
  EXPECT_NEAR(ProbabilityAllBy(times, 12), static_cast<double>(by_12) / kDraws, 0.01);
  EXPECT_NEAR(static_cast<double>(by_t95) / kDraws, 0.95, 0.005);
  const auto clark = LaterOf(LaterOf(times[0], times[1]), times[2]);
  EXPECT_NEAR(clark.mean_s, sum / kDraws, 0.1);
}

}  // namespace
}  // namespace hase::placement

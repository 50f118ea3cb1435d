#include "apps/live/demo_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace hase::live {
namespace {

PairTime Time(const Pair& pair) {
  return {.batch_s = 0.02 * static_cast<double>(pair.batch),
          .load_s = pair.model == "vgg11" ? 1.5 : 0.2};
}

TEST(DemoJobs, KeepWhatTheDemoPromises) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto jobs = DrawDemoJobs(seed, false, Time);
    ASSERT_GE(jobs.size(), 24u);
    int unprofiled = 0;
    std::set<std::string> families;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto& job = jobs[i];
      const auto pairs = DemoPairs(false);
      const auto pair = std::ranges::find_if(
          pairs, [&](const Pair& p) { return p.model == job.model && p.batch == job.batch; });
      ASSERT_NE(pair, pairs.end());
      unprofiled += !pair->profiled;
      families.insert(job.model.substr(0, 4));
      const PairTime time = Time(*pair);
      EXPECT_GE(static_cast<double>(job.inputs / job.batch) * time.batch_s, 5 * time.load_s);
      EXPECT_EQ(job.inputs % job.batch, 0);
      if (i > 0) {
        EXPECT_GE(job.arrival, jobs[i - 1].arrival);
      }
    }
    EXPECT_GE(unprofiled * 3, static_cast<int>(jobs.size()));
    EXPECT_LT(unprofiled * 2, static_cast<int>(jobs.size()));
    EXPECT_EQ(families.size(), 5u) << "resn, vgg1, dens, mobi, yolo";
    EXPECT_GT(jobs.back().arrival, FromSeconds(10));
  }
}

TEST(DemoJobs, SameSeedSameJobs) {
  const auto a = DrawDemoJobs(7, false, Time), b = DrawDemoJobs(7, false, Time),
             c = DrawDemoJobs(8, false, Time);
  ASSERT_EQ(a.size(), b.size());
  bool differs = false;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].model, b[i].model);
    EXPECT_EQ(a[i].inputs, b[i].inputs);
    EXPECT_EQ(a[i].arrival, b[i].arrival);
    differs = differs || a[i].inputs != c[i].inputs;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace hase::live

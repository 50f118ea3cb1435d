#include "measurement/prediction_error.h"

#include <gtest/gtest.h>

namespace hase::measurement {
namespace {

TEST(PredictionError, WorkAndLoadAreApartAndFailedRunsDoNotCount) {
  execution::Outcome outcome;
  execution::RunOutcome run;
  run.slots = {{.device = DeviceId(1)}};
  run.started = FromSeconds(10);
  run.loaded = FromSeconds(12);
  run.predicted_load_s = 1;
  run.predicted_work_s = 9;
  run.observed_work_s = 10;
  run.ok = true;
  outcome.runs.push_back(run);
  run.ok = false;
  outcome.runs.push_back(run);
  const auto points = PredictionPoints(outcome);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_FALSE(points[0].load);
  EXPECT_DOUBLE_EQ(points[0].error(), 0.1);
  EXPECT_TRUE(points[1].load);
  EXPECT_DOUBLE_EQ(points[1].error(), 0.5);
  EXPECT_EQ(points[0].device, DeviceId(1));
}

TEST(PredictionError, SummaryOfFew) {
  EXPECT_EQ(Summarise({}).count, 0);
  const auto summary = Summarise({0.3, 0.1, 0.2, 0.4});
  EXPECT_DOUBLE_EQ(summary.median, 0.25);
  EXPECT_DOUBLE_EQ(summary.mean, 0.25);
  EXPECT_NEAR(summary.p90, 0.37, 1e-12);
}

}  // namespace
}  // namespace hase::measurement

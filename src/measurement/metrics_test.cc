#include "measurement/metrics.h"

#include <gtest/gtest.h>

namespace hase::measurement {
namespace {

TEST(ClosedGap, IsAPartOfTheGapThatRoundRobinLeaves) {
  EXPECT_DOUBLE_EQ(*ClosedGap(200, 200, 100), 0);
  EXPECT_DOUBLE_EQ(*ClosedGap(200, 120, 100), 0.8);
  EXPECT_LT(*ClosedGap(200, 250, 100), 0);
}

TEST(ClosedGap, MeansNothingWhereRoundRobinMeetsTheBound) {
  EXPECT_FALSE(ClosedGap(100, 101, 100));
  EXPECT_FALSE(ClosedGap(100.05, 101, 100));
  EXPECT_FALSE(ClosedGap(0, 0, 0));  // nothing ran
}

}  // namespace
}  // namespace hase::measurement

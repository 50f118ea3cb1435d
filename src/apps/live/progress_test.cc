#include "apps/live/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hase::live {
namespace {
using testing::HasSubstr;

TEST(Progress, BarsFillInEighths) {
  EXPECT_EQ(Bar(0, 3), "···");
  EXPECT_EQ(Bar(0.5, 3), "█▌·");
  EXPECT_EQ(Bar(2, 2), "██");
  EXPECT_EQ(Bar(0.0 / 0.0, 2), "··");
}

TEST(Progress, FollowsTheJournalInEightyColumns) {
  cluster::Cluster cluster;
  cluster.types.emplace_back().spec.kind = cluster::DeviceKind::kCpu;
  cluster.types[0].quota = MilliShare(600);
  cluster.devices.emplace_back().name = "here/0";
  std::vector<workload::Job> jobs(2);
  jobs[0].job_id = "a-job-with-a-rather-long-name-that-goes-on-and-on";
  jobs[0].model = "models/a_model_with_a_long_name.onnx";
  jobs[0].inputs = 100;
  jobs[1].job_id = "b";
  Progress progress("hase", cluster, jobs);
  const auto tell = [&](std::string_view kind, const std::string& job, int64_t inputs = 0) {
    execution::LogEntry entry;
    entry.kind = kind;
    entry.job = job;
    entry.device = kind == "arrived" ? "" : "here/0";
    entry.inputs = inputs;
    progress.OnEntry(entry);
  };
  tell("arrived", jobs[0].job_id);
  tell("started", jobs[0].job_id);
  tell("chunk", jobs[0].job_id, 40);
  auto lines = progress.Lines(3.2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("0 of 2 jobs"));
  EXPECT_THAT(lines[0], HasSubstr("1 to come"));
  EXPECT_THAT(lines[1], HasSubstr("60 %"));
  EXPECT_THAT(lines[1], HasSubstr("40 %"));
  for (const auto& line : lines) EXPECT_LE(line.size(), 80u + 2 * 36u);
  tell("finished", jobs[0].job_id);
  lines = progress.Lines(5);
  EXPECT_THAT(lines[0], HasSubstr("1 of 2 jobs"));
  EXPECT_THAT(lines[1], HasSubstr("idle"));
}

}  // namespace
}  // namespace hase::live

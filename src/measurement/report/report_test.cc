// The report as text: complete in itself, and safe from what names of jobs may hold. How it looks
// and works in a browser is tests/report_test.py's.
#include "measurement/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/rng.h"
#include "measurement/report/assets.h"

namespace hase::measurement {
namespace {
using testing::HasSubstr;
using testing::Not;

constexpr const char* kModels[] = {"resnet50", "vgg11", "densenet121", "mobilenet_v2", "yolov5n"};

ReportPolicy SamplePolicy(const std::string& name, Report& report, Rng& rng) {
  ReportPolicy policy;
  policy.name = name;
  policy.jobs = policy.finished = 30;
  policy.closed_gap = name == "hase" ? 0.86 : 0;
  double at[3] = {};
  for (int i = 0; i < 30; ++i) {
    const int device = i % 3;
    const double start = at[device] + rng.Uniform(0, 0.5), end = start + rng.Uniform(2, 12);
    at[device] = end;
    ReportBar bar;
    bar.job = "job-" + std::to_string(i);
    bar.model = kModels[i % 5];
    bar.device = report.devices[static_cast<size_t>(device)].name;
    bar.start_s = start;
    bar.end_s = end;
    bar.loaded_s = start + 0.4;
    bar.predicted_end_s = end * rng.Uniform(0.95, 1.05);
    bar.ok = i != 7;
    policy.makespan_s = std::max(policy.makespan_s, end);
    for (const bool load : {false, true}) {
      ReportPoint point;
      point.job = bar.job;
      point.model = bar.model;
      point.device = bar.device;
      point.policy = name;
      point.load = load;
      point.profiled = i % 2 == 0;
      point.measured_s = load ? 0.4 : end - start;
      point.predicted_s = point.measured_s * rng.Uniform(0.85, 1.2);
      report.points.push_back(point);
    }
    bar.backfilled = i % 10 == 4;
    if (i % 6 == 5) bar.promised_s = start + 1;
    policy.completions_s.push_back(end);
    policy.moments.push_back({start, 30.0 - i, 0.9});
    policy.bars.push_back(std::move(bar));
  }
  policy.promises_made = 40;
  policy.promises_kept = name == "hase" ? 38 : 31;
  policy.promised_probability = 0.95;
  return policy;
}

// A made-up run of two policies, large enough to look at.
Report Sample() {
  Report report;
  report.title = "HASE demo";
  report.subtitle = "30 jobs on three partitions of one machine";
  report.cards = {{"118 s → 79 s", "makespan, round-robin → hase"},
                  {"0.86", "of the gap to the lower bound closed"},
                  {"5.3 %", "median error of predicted durations"}};
  report.lower_bound_s = 52.5;
  report.devices = {{"local/0", "core 0, 100 %"},
                    {"local/1", "core 1, 60 % (cgroup-v1, 3.0 of each 5 ms)"},
                    {"local/2", "core 1, 30 % (cgroup-v1, 1.5 of each 5 ms)"}};
  report.prediction_note = "Durations after loading, and loading.";
  report.notes = {"The made-up </script> figures of a test."};
  Rng rng(1);
  for (const char* name : {"round-robin", "hase"}) {
    report.policies.push_back(SamplePolicy(name, report, rng));
    ReportDecision decision;
    decision.policy = name;
    decision.kind = "start";
    decision.job = "job-</script>1";
    decision.device = "local/0";
    decision.why = "earliest predicted finish";
    decision.t_s = 1;
    decision.predicted_end_s = 7;
    decision.candidates.push_back({.device = "local/0", .bound_by = "compute"});
    report.decisions.push_back(decision);
    report.seeds.push_back({name, 10, ReportSeeds::Value{0.8, 0.02}, {118, 3}, {60, 2}});
  }
  report.curves = true;
  return report;
}

TEST(ReportTest, IsCompleteAndLoadsNothing) {
  const std::string page = RenderReport(Sample());
  EXPECT_GT(page.size(), 500'000u);  // the chart library is inside
  EXPECT_THAT(page, HasSubstr("Apache License"));
  for (const char* mark : {"@@STYLE@@", "@@SHARED@@", "@@ECHARTS@@", "@@DATA@@"}) {
    EXPECT_THAT(page, Not(HasSubstr(mark)));
  }
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, HasSubstr("densenet121"));
}

TEST(ReportTest, NamesCannotBreakOutOfTheScript) {
  const std::string page = RenderReport(Sample());
  EXPECT_THAT(page, Not(HasSubstr("job-</script>1")));
  EXPECT_THAT(page, HasSubstr("job-<\\/script>1"));
}

// Written where tests/report_test.py finds it.
TEST(ReportTest, WritesAFile) {
  const char* folder = std::getenv("HASE_REPORT_DIR");
  const std::string path = std::string(folder ? folder : testing::TempDir()) + "/sample.html";
  ASSERT_TRUE(WriteReport(path, Sample()));
}

}  // namespace
}  // namespace hase::measurement

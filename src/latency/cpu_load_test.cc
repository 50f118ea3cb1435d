// The law from counters to slow-downs: who competes where, and recorded rows of real models beside
// real strangers (tests/load, measured by `hase evaluate --load --record`).
#include "latency/cpu_load.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "latency/load_rows.h"

namespace hase::latency {
namespace {

using cluster::telemetry::Counter;
using cluster::telemetry::Snapshot;
using cluster::telemetry::Stranger;
using cluster::telemetry::Validity;

Stranger On(std::vector<int> cores, double runnable, std::string group = "") {
  Stranger s;
  s.group = std::move(group);
  s.cores = std::move(cores);
  s.run = runnable;
  return s;
}

TEST(Competition, CountsWhatIsRunnableOnTheJobsCore) {
  EXPECT_EQ(Competition({}, {0}, 2), std::vector{0.0});
  EXPECT_NEAR(Competition({On({0}, 1)}, {0}, 2)[0], 1, 1e-12);
  EXPECT_NEAR(Competition({On({0}, 0.5), On({0}, 0.25)}, {0}, 2)[0], 0.75, 1e-12);
  EXPECT_EQ(Competition({On({1}, 1)}, {0}, 2)[0], 0);
  // Waiting counts as wanting.
  Stranger starved = On({0}, 0.4);
  starved.wait = 0.6;
  EXPECT_NEAR(Competition({starved}, {0}, 2)[0], 1, 1e-12);
}

TEST(Competition, AGroupHasOneWeightHoweverManyItsThreads) {
  EXPECT_NEAR(Competition({On({0}, 1, "g"), On({0}, 1, "g")}, {0}, 2)[0], 1, 1e-12);
  EXPECT_NEAR(Competition({On({0}, 1, "g"), On({0}, 1, "h")}, {0}, 2)[0], 2, 1e-12);
  // Half of the group's weight is on the other core.
  EXPECT_NEAR(Competition({On({0}, 1, "g"), On({1}, 1, "g")}, {0}, 2)[0], 0.5, 1e-12);
  // A job of two cores brings half its own weight to each.
  EXPECT_NEAR(Competition({On({0}, 1, "g")}, {0, 1}, 2)[0], 2, 1e-12);
}

TEST(Competition, WhoMayRunAnywhereRunsWhereTheJobIsNot) {
  EXPECT_EQ(Competition({On({0, 1}, 1)}, {0}, 2)[0], 0);
  EXPECT_EQ(Competition({On({}, 1)}, {0}, 2)[0], 0);
  // The other core is taken: half there, half here.
  EXPECT_NEAR(Competition({On({1}, 1), On({0, 1}, 1)}, {0}, 2)[0], 0.5, 1e-12);
}

Snapshot Probed(double compute, double stream, double latency) {
  Snapshot snapshot;
  snapshot.interval_s = 1;
  snapshot.devices.resize(2);
  for (int i = 0; i < 2; ++i) {
    auto& device = snapshot.devices[static_cast<size_t>(i)];
    device.index = i;
    device.at(Counter::kSmActive) = {0, 0, Validity::kOk};
  }
  snapshot.devices[0].at(Counter::kProbeCompute) = {compute, 0, Validity::kOk};
  snapshot.devices[0].at(Counter::kProbeStream) = {stream, 0, Validity::kOk};
  snapshot.devices[0].at(Counter::kProbeLatency) = {latency, 0, Validity::kOk};
  return snapshot;
}

TEST(CpuForeignLoad, ComparesTheProbeWithRest) {
  const QuietProbe quiet = QuietestOf(Probed(10, 50, 300));
  const auto load = CpuForeignLoad(Probed(10, 75, 330), {0}, quiet);
  EXPECT_TRUE(load.valid);
  EXPECT_EQ(load.sm, 0);
  EXPECT_NEAR(load.stream_stretch, 0.5, 1e-12);
  EXPECT_EQ(load.compute_stretch, 0);
  // Quieter than what was taken for rest: not faster than alone.
  EXPECT_EQ(CpuForeignLoad(Probed(10, 40, 300), {0}, quiet).stream_stretch, 0);
  EXPECT_EQ(CpuForeignLoad(Probed(10, 75, 300), {0}, {}).stream_stretch, 0);  // rest unknown
  Snapshot first = Probed(10, 50, 300);
  first.interval_s = 0;
  EXPECT_FALSE(CpuForeignLoad(first, {0}, quiet).valid);
}

TEST(CpuForeignLoad, AStretchSlowsTheWorkItIsOf) {
  const SharingLaw law{.kind = SharingKind::kCpu};
  ForeignLoad load;
  load.valid = true;
  load.stream_stretch = 1;
  const Demand streams{0, 1, 0, 1, 1, 1}, computes{1, 0, 0, 1, 0, 1};
  EXPECT_GT(Slowdown(streams, {}, load, law), 1.2);
  EXPECT_EQ(Slowdown(computes, {}, load, law), 1);
  load.stream_stretch = 0;
  load.compute_stretch = 0.3;  // a hyper-thread is busy
  EXPECT_NEAR(Slowdown(computes, {}, load, law), 1.3, 1e-12);
}

TEST(LoadRows, SurviveWritingAndReading) {
  LoadRow row;
  row.model = "m";
  row.device = "cpu-1c-q1";
  row.stranger = "compute";
  row.cores = {0};
  row.solo_ms = 10;
  row.observed_ms = 20;
  row.snapshot = Probed(10, 50, 300);
  row.snapshot.strangers = {On({0}, 1, "autogroup-7")};
  const auto again = ParseLoadRows("f", ToJsonLine(row) + "\n");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(ToJsonLine(again->front()), ToJsonLine(row));
  EXPECT_NEAR(PredictedMs(again->front()), 20, 1e-9);
  EXPECT_NEAR(BlindMs(again->front()), 10, 1e-9);
  EXPECT_NE(ParseLoadRows("f", "\n{\"model\": 1}").error().message.find("f:2: "),
            std::string::npos);
  row.solo_ms = 0;
  EXPECT_NE(ParseLoadRows("f", ToJsonLine(row)).error().message.find("f:1: times must be above 0"),
            std::string::npos);
}

// The bars of the paper's core claim, on rows that were measured once: models and strangers that
// the law's constants were not fitted on.
TEST(LoadRows, RecordedModelsBesideStrangersArePredictedFromCountersAlone) {
  const auto text = ReadFile("tests/load/epyc_2_cores.jsonl");
  ASSERT_TRUE(text);
  const auto rows = ParseLoadRows("epyc_2_cores.jsonl", *text);
  ASSERT_TRUE(rows) << rows.error().message;
  std::vector<const LoadRow*> held_out;
  for (const auto& row : *rows) {
    if (!row.fitted && row.stranger != "none" && row.ledger.empty()) held_out.push_back(&row);
  }
  const LoadScore score = ScoreOf(held_out);
  EXPECT_GE(score.rows, 60);
  EXPECT_LE(score.error, 0.15);
  EXPECT_LE(score.error, score.blind / 2);
}

}  // namespace
}  // namespace hase::latency

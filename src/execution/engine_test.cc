#include "execution/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "execution/testing.h"

namespace hase::execution {
namespace {

using cluster::ShareMode;
using placement::Slot;
using testing::Bench;
using testing::FifoPolicy;
using ::testing::HasSubstr;
using testing::ScriptPolicy;

placement::Start StartOf(JobId job, int64_t inputs, std::vector<Slot> slots) {
  placement::Start start;
  start.job = job;
  start.slots = std::move(slots);
  start.inputs = inputs;
  return start;
}
Slot Whole(uint32_t device) { return {DeviceId(device), kWholeDevice, ShareMode::kExclusive}; }
Slot Half(uint32_t device) { return {DeviceId(device), MilliShare(500), ShareMode::kMps}; }

TEST(Engine, RunsJobsOneAfterAnother) {
  Bench bench(1);
  bench.Add(0, 3);
  bench.Add(1, 2);
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->jobs[0].end, FromSeconds(3));
  EXPECT_EQ(out->jobs[1].first_start, FromSeconds(3));
  EXPECT_EQ(out->end, FromSeconds(5));
  EXPECT_FALSE(out->infeasible);
}

TEST(Engine, LoadTimeIsCharged) {
  Bench bench(1);
  bench.SetModel(ModelId(0), 1, 2.5, GiB(1));
  bench.Add(0, 4);
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->end, FromSeconds(6.5));
  EXPECT_EQ(out->runs[0].loaded, FromSeconds(2.5));
}

// Two half-card tenants at gain 1.25 run at 0.625 each; when one leaves, the other keeps its half.
TEST(Engine, ProgressFollowsTheResidents) {
  Bench bench(1, GiB(16), 1.25);
  const JobId a = bench.Add(0, 5), b = bench.Add(0, 10);
  ScriptPolicy script;
  script.plans.push_back({{StartOf(a, 5, {Half(0)}), StartOf(b, 10, {Half(0)})}, {}});
  auto out = bench.Run(script);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->jobs[0].end, FromSeconds(8));
  // b has done 8 · 0.625 = 5 batches; the other 5 go at 0.5.
  EXPECT_EQ(out->jobs[1].end, FromSeconds(18));
}

TEST(Engine, AGangSplitsItsInputsAndNeedsDistinctDevices) {
  Bench bench(2);
  const JobId a = bench.Add(0, 6, ModelId(0), 2);
  ScriptPolicy good;
  good.plans.push_back({{StartOf(a, 6, {Whole(0), Whole(1)})}, {}});
  auto out = bench.Run(good);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->end, FromSeconds(3));
  ScriptPolicy bad;
  bad.plans.push_back({{StartOf(a, 6, {Whole(0), Whole(0)})}, {}});
  EXPECT_THAT(bench.Run(bad).error().message, HasSubstr("a gang twice on one device"));
}

struct BreachCase {
  const char* what;
  std::vector<placement::Decision> decisions;
  const char* message;
};
class Breaches : public ::testing::TestWithParam<BreachCase> {};
TEST_P(Breaches, AreErrorsThatNameTheDecision) {
  Bench bench(2);
  bench.SetModel(ModelId(1), 1, 0, GiB(9));
  bench.Add(0, 4);
  bench.Add(0, 4, ModelId(1));
  bench.Add(0, 4, ModelId(1));
  bench.Add(50, 4);
  bench.faults.push_back({Nanos(0), FaultKind::kDeviceDown, DeviceId(1), {}, 1});
  ScriptPolicy script;
  script.plans.push_back({GetParam().decisions, {}});
  auto out = bench.Run(script);
  ASSERT_FALSE(out) << GetParam().what;
  EXPECT_THAT(out.error().message, HasSubstr(GetParam().message)) << GetParam().what;
}
INSTANTIATE_TEST_SUITE_P(
    All, Breaches,
    ::testing::Values(
        BreachCase{"share",
                   {StartOf(JobId(0), 4, {Half(0)}),
                    StartOf(JobId(1), 4, {{DeviceId(0), MilliShare(501), ShareMode::kMps}})},
                   "decision 1 (start j1 on n0/0): n0/0: shares would sum to 1001 of 1000"},
        BreachCase{"memory",
                   {StartOf(JobId(1), 4, {Half(0)}), StartOf(JobId(2), 4, {Half(0)})},
                   "memory would be 18.00 GiB of 15.36 GiB"},
        BreachCase{"down", {StartOf(JobId(0), 4, {Whole(1)})}, "the device is down"},
        BreachCase{"exclusive",
                   {StartOf(JobId(0), 4, {Half(0)}), StartOf(JobId(1), 4, {Whole(0)})},
                   "an exclusive slot on a device that is in use"},
        BreachCase{"twice",
                   {StartOf(JobId(0), 4, {Half(0)}), StartOf(JobId(0), 4, {Half(0)})},
                   "4 inputs where 0 are left"},
        BreachCase{"early", {StartOf(JobId(3), 4, {Half(0)})}, "the job is not in the queue"},
        BreachCase{"mode",
                   {StartOf(JobId(0), 4, {{DeviceId(0), MilliShare(500), ShareMode::kMig}})},
                   "cannot enforce mode mig"},
        BreachCase{"nobody", {StartOf(JobId(99), 4, {Half(0)})}, "no such job"}));

TEST(Engine, AKilledWorkerGoesOnOnceThenFails) {
  Bench bench(1);
  bench.Add(0, 10);
  bench.faults.push_back({FromSeconds(4.5), FaultKind::kKillWorker, {}, JobId(0), 1});
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  // Four of ten seconds were whole chunks; half a second is lost.
  EXPECT_EQ(out->jobs[0].ending, Ending::kFinished);
  EXPECT_EQ(out->end, FromSeconds(10.5));
  bench.faults.push_back({FromSeconds(6), FaultKind::kKillWorker, {}, JobId(0), 1});
  out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->jobs[0].ending, Ending::kFailed);
  EXPECT_EQ(out->jobs[0].why, "worker killed");
}

TEST(Engine, OutOfMemoryIsTriedOnceMoreWithMore) {
  Bench bench(1);
  bench.SetModel(ModelId(0), 1, 1, GiB(4));
  bench.world.Set(ModelId(0), DeviceTypeId(0), 1, {1, 1, GiB(5)});  // the truth
  const JobId a = bench.Add(0, 2);
  ScriptPolicy script;
  script.plans = {{{StartOf(a, 2, {Half(0)})}, {}}, {{StartOf(a, 2, {Half(0)})}, {}}};
  auto out = bench.Run(script);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->out_of_memory, 1);
  EXPECT_EQ(out->jobs[0].ending, Ending::kFinished);
  EXPECT_EQ(out->runs[1].predicted_memory, GiB(6));
  bench.world.Set(ModelId(0), DeviceTypeId(0), 1, {1, 1, GiB(7)});
  script = ScriptPolicy();
  script.plans = {{{StartOf(a, 2, {Half(0)})}, {}}, {{StartOf(a, 2, {Half(0)})}, {}}};
  out = bench.Run(script);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->jobs[0].ending, Ending::kFailed);
  EXPECT_THAT(out->jobs[0].why, HasSubstr("out of memory again"));
}

TEST(Engine, ALostDeviceMovesItsJobAndChargesNoRetry) {
  Bench bench(2);
  bench.options.retries = 0;
  bench.Add(0, 10);
  bench.faults.push_back({FromSeconds(3.5), FaultKind::kDeviceDown, DeviceId(0), {}, 1});
  bench.faults.push_back({FromSeconds(5), FaultKind::kDeviceUp, DeviceId(0), {}, 1});
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  ASSERT_EQ(out->runs.size(), 2u);
  EXPECT_EQ(out->runs[1].slots[0].device, DeviceId(1));
  EXPECT_EQ(out->jobs[0].ending, Ending::kFinished);
  EXPECT_EQ(out->end, FromSeconds(10.5));
  EXPECT_THAT(bench.journal.text(), HasSubstr("\"kind\":\"moved\""));
}

TEST(Engine, ACancelledJobLeavesNoGhost) {
  Bench bench(1);
  bench.Add(0, 100);
  bench.Add(0, 2);
  bench.faults.push_back({FromSeconds(2.5), FaultKind::kCancel, {}, JobId(0), 1});
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->jobs[0].ending, Ending::kCancelled);
  EXPECT_EQ(out->jobs[1].first_start, FromSeconds(2.5));
  EXPECT_EQ(out->end, FromSeconds(4.5));
}

TEST(Engine, WhatCanNeverRunIsRejectedAndTheRestGoesOn) {
  Bench bench(1);
  bench.SetModel(ModelId(1), 1, 0, GiB(20));
  bench.Add(0, 2, ModelId(1));
  bench.Add(0, 2, ModelId(0), 3);
  bench.Add(0, 2, ModelId(7));
  bench.Add(0, 2);
  bench.jobs[3].job.device_types = {"H100"};
  bench.Add(0, 2);
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->infeasible);
  EXPECT_EQ(out->jobs[0].why, "no device has the memory it needs");
  EXPECT_THAT(out->jobs[0].nearest_feasible, HasSubstr("n0/0 would need 20.00 GiB"));
  EXPECT_EQ(out->jobs[1].why, "a gang of 3 where 1 devices fit");
  EXPECT_EQ(out->jobs[2].why, "no estimate: not in the fake");
  EXPECT_THAT(out->jobs[3].why, HasSubstr("no device of the types it names"));
  EXPECT_EQ(out->jobs[4].ending, Ending::kFinished);
}

TEST(Engine, NeverHangsOnAPolicyThatStartsNothing) {
  Bench bench(1);
  bench.Add(0, 2);
  ScriptPolicy idle;
  auto out = bench.Run(idle);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->jobs[0].ending, Ending::kRejected);
}

TEST(Engine, ACutJobRunsInPartsAndEndsOnce) {
  Bench bench(2);
  const JobId a = bench.Add(0, 10);
  bench.jobs[0].job.max_parallel = 2;
  ScriptPolicy script;
  script.plans.push_back({{StartOf(a, 4, {Whole(0)}), StartOf(a, 6, {Whole(1)})}, {}});
  auto out = bench.Run(script);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->jobs[0].end, FromSeconds(6));
  EXPECT_THAT(bench.journal.text(), HasSubstr("\"why\":\"part\""));
}

TEST(Engine, WakesThePolicyWhenAsked) {
  Bench bench(1);
  const JobId a = bench.Add(0, 1);
  ScriptPolicy script;
  script.plans = {{{}, FromSeconds(7)}, {{StartOf(a, 1, {Whole(0)})}, {}}};
  auto out = bench.Run(script);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->jobs[0].first_start, FromSeconds(7));
}

TEST(Engine, CountsPromises) {
  Bench bench(1);
  const JobId a = bench.Add(0, 4), b = bench.Add(0, 2);
  ScriptPolicy script;
  placement::Reserve reserve;
  reserve.job = b;
  reserve.slots = {Whole(0)};
  reserve.from = FromSeconds(4);
  reserve.probability = 0.95;
  script.plans = {{{StartOf(a, 4, {Whole(0)}), reserve}, {}}, {{StartOf(b, 2, {Whole(0)})}, {}}};
  auto out = bench.Run(script);
  ASSERT_TRUE(out) << out.error().message;
  ASSERT_TRUE(out->jobs[1].promise);
  EXPECT_EQ(out->jobs[1].promise->from, *out->jobs[1].first_start);
}

// A job three times slower than predicted passes its p99 and wakes the policy; a card whose jobs
// all take 20 % longer is believed to be slower.
TEST(Engine, SeesOverrunsAndLearnsSlowCards) {
  Bench bench(1);
  bench.Add(0, 10);
  bench.faults.push_back({Nanos(0), FaultKind::kMispredicted, {}, JobId(0), 3});
  FifoPolicy fifo;
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->overruns, 1);

  Bench slow(1);
  for (int i = 0; i < 30; ++i) slow.Add(0, 10);
  slow.faults.push_back({Nanos(0), FaultKind::kSlowDevice, DeviceId(0), {}, 1.2});
  ManualClock clock;
  Simulation simulation(slow.world, slow.cluster, clock);
  simulation.Inject(slow.faults[0]);
  NullJournal journal;
  Engine engine({}, clock, simulation, simulation, fifo, slow.estimator, slow.cluster, slow.jobs,
                journal);
  for (;;) {
    auto more = engine.Step();
    ASSERT_TRUE(more);
    if (!*more) break;
  }
  EXPECT_NEAR(engine.View().devices[0].speed_factor, 1.2, 0.02);
}

// Another source, and one event more at its time.
class WithEvent final : public EventSource {
 public:
  WithEvent(EventSource& inner, Event event) : inner_(inner), event_(std::move(event)) {}
  std::optional<Event> Next(std::optional<Nanos> until) override {
    if (sent_ || (until && *until < event_.time)) return inner_.Next(until);
    if (auto before = inner_.Next(event_.time)) return before;
    sent_ = true;
    return event_;
  }

 private:
  EventSource& inner_;
  Event event_;
  bool sent_ = false;
};

// Strangers seen on a card at 2 s: what is forecast of it changes at once.
TEST(Engine, ForecastsFollowWhatCountersSeeOfStrangers) {
  Bench bench(1);
  bench.Add(0, 10);
  FifoPolicy fifo;
  ManualClock clock;
  Simulation simulation(bench.world, bench.cluster, clock);
  NullJournal journal;
  latency::ForeignLoad load;
  load.valid = true;
  load.sm = 1;
  WithEvent events(simulation, {FromSeconds(2), 0, ForeignSeen{DeviceId(0), load}});
  Engine engine({}, clock, events, simulation, fifo, bench.estimator, bench.cluster, bench.jobs,
                journal);
  ASSERT_TRUE(engine.Step());
  EXPECT_FALSE(engine.View().devices[0].foreign.valid);
  while (clock.Now() < FromSeconds(2)) ASSERT_TRUE(engine.Step());
  EXPECT_TRUE(engine.View().devices[0].foreign.valid);
  EXPECT_EQ(engine.View().devices[0].foreign.sm, 1);
}

// The engine's own learning: one of two twins ten per cent slower stands out after 30 jobs each,
// and nothing stands out where both are equal.
TEST(Engine, TellsASlowCardFromItsTwin) {
  for (const double slower : {1.0, 1.1}) {
    Bench bench(2);
    for (int i = 0; i < 60; ++i) bench.Add(0, 10);
    if (slower > 1) {
      bench.faults.push_back({Nanos(0), FaultKind::kSlowDevice, DeviceId(1), {}, slower});
    }
    FifoPolicy fifo;
    ManualClock clock;
    Simulation simulation(bench.world, bench.cluster, clock);
    for (const auto& fault : bench.faults) simulation.Inject(fault);
    NullJournal journal;
    Engine engine({}, clock, simulation, simulation, fifo, bench.estimator, bench.cluster,
                  bench.jobs, journal);
    for (;;) {
      auto more = engine.Step();
      ASSERT_TRUE(more);
      if (!*more) break;
    }
    const auto devices = engine.View().devices;
    EXPECT_NEAR(devices[1].speed_factor / devices[0].speed_factor, slower, 0.02);
    EXPECT_EQ(engine.CardOf(DeviceId(1)).flagged, slower > 1);
    EXPECT_GE(engine.CardOf(DeviceId(0)).jobs, 25);
  }
}

TEST(Engine, ResumesFromItsJournalWithoutDoingWorkTwice) {
  Bench bench(1);
  bench.Add(0, 4);
  bench.Add(0, 4);
  ManualClock clock;
  Simulation simulation(bench.world, bench.cluster, clock);
  MemoryJournal journal;
  FifoPolicy fifo;
  {
    Engine engine({}, clock, simulation, simulation, fifo, bench.estimator, bench.cluster,
                  bench.jobs, journal);
    while (clock.Now() < FromSeconds(6)) ASSERT_TRUE(engine.Step());
  }  // killed after j0 and two inputs of j1
  const auto progress = ProgressOf(journal.entries());
  for (auto& job : bench.jobs) {
    const auto& p = progress.at(job.job.job_id);
    job.inputs_done = p.inputs_done;
    job.over = p.over;
  }
  auto out = bench.Run(fifo);
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->jobs[0].finished_before);
  ASSERT_EQ(out->runs.size(), 1u);
  EXPECT_EQ(out->runs[0].inputs, 2);
}

// Killed between the entry of the last chunk and that of the end: the work is not done again, and
// the journal says once that the job ended.
TEST(Engine, ResumeSaysWhatEndedUnsaid) {
  Bench bench(1);
  bench.Add(0, 4);
  bench.Add(0, 4);
  bench.jobs[0].inputs_done = 4;
  ManualClock clock;
  Simulation simulation(bench.world, bench.cluster, clock);
  MemoryJournal journal;
  FifoPolicy fifo;
  Engine engine({}, clock, simulation, simulation, fifo, bench.estimator, bench.cluster, bench.jobs,
                journal);
  auto out = engine.Run();
  ASSERT_TRUE(out);
  ASSERT_EQ(out->runs.size(), 1u);
  EXPECT_EQ(out->runs[0].job, JobId(1));
  const auto progress = ProgressOf(journal.entries());
  EXPECT_TRUE(progress.at("j0").over);
  EXPECT_TRUE(progress.at("j1").over);
}

TEST(Engine, SameRunSameBytes) {
  std::string first;
  for (int i = 0; i < 2; ++i) {
    Bench bench(3);
    for (int j = 0; j < 20; ++j) bench.Add(j * 0.7, 1 + j % 5);
    bench.faults.push_back({FromSeconds(5), FaultKind::kDeviceDown, DeviceId(0), {}, 1});
    FifoPolicy fifo;
    ASSERT_TRUE(bench.Run(fifo));
    if (i == 0) first = bench.journal.text();
    EXPECT_EQ(bench.journal.text(), first);
  }
  EXPECT_GT(first.size(), 1000u);
}

TEST(EventLog, WritesFixedKeysAndReadsThemBack) {
  LogEntry e;
  e.time = Nanos(5);
  e.seq = 2;
  e.kind = "started";
  e.job = "a\"b";
  e.device = "n/0";
  e.share = MilliShare(500);
  e.predicted = Nanos(9);
  const std::string line = EventLine(e);
  EXPECT_EQ(line,
            "{\"t_ns\":5,\"seq\":2,\"kind\":\"started\",\"job\":\"a\\\"b\",\"device\":\"n/0\","
            "\"share_milli\":500,\"why\":\"\",\"predicted_ns\":9}");
  auto back = ParseEventLog("e.jsonl", line + "\n");
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].job, "a\"b");
  EXPECT_EQ(ParseEventLog("e.jsonl", line + "\n{\n").error().message,
            "e.jsonl:2: not a JSON object");
}

}  // namespace
}  // namespace hase::execution

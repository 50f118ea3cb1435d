// The local backend with real workers on small models: the backend contract, and what a dying,
// greedy or broken model does to its neighbours (nothing).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <map>

#include "execution/backends/local/local_executor.h"

namespace hase::execution {
namespace {
using testing::HasSubstr;

constexpr const char* kModels[] = {"tiny", "steady", "hungry", "broken"};
enum : uint32_t { kTiny, kSteady, kHungry, kBroken };

class Local : public testing::Test {
 protected:
  void SetUp() override {
    for (const int quota : {1000, 500}) {
      cluster::DeviceType type;
      type.runtime = model::Runtime::kOrtCpu;
      type.quota = MilliShare(quota);
      cluster_.types.push_back(type);
      cluster::Device device;
      device.id = DeviceId(static_cast<uint32_t>(cluster_.devices.size()));
      device.type = DeviceTypeId(static_cast<uint32_t>(cluster_.types.size() - 1));
      device.name = "here/" + std::to_string(device.id.index());
      device.cpu_cores = {0};
      cluster_.devices.push_back(device);
    }
    std::vector<LocalModel> models;
    for (const char* name : kModels)
      models.push_back({.path = std::string("tests/models/") + name + ".onnx"});
    auto executor = LocalExecutor::Make(cluster_, models, events_, {.stop_grace = FromSeconds(2)});
    ASSERT_TRUE(executor) << executor.error().message;
    executor_ = std::move(*executor);
  }

  static Launch Make(uint32_t run, uint32_t model, int64_t inputs, int64_t chunk,
                     const std::vector<uint32_t>& devices = {0}) {
    Launch launch;
    launch.run = RunId(run);
    launch.job = JobId(run);
    launch.model = ModelId(model);
    for (const uint32_t device : devices) launch.slots.push_back({.device = DeviceId(device)});
    launch.batch = 2;
    launch.inputs = inputs;
    launch.chunk_inputs = chunk;
    return launch;
  }

  struct Seen {
    int loaded = 0, finished = 0, failed = 0;
    int64_t inputs = 0;
    std::string why;
    bool out_of_memory = false;
  };
  void Note(const Event& event) {
    if (const auto* e = std::get_if<RunLoaded>(&event.what)) ++seen_[e->run.index()].loaded;
    if (const auto* e = std::get_if<ChunkDone>(&event.what))
      seen_[e->run.index()].inputs += e->inputs;
    if (const auto* e = std::get_if<RunFinished>(&event.what)) ++seen_[e->run.index()].finished;
    if (const auto* e = std::get_if<RunFailed>(&event.what)) {
      Seen& seen = seen_[e->run.index()];
      ++seen.failed;
      seen.why = e->why;
      seen.out_of_memory = e->out_of_memory;
    }
  }
  // Reads events until `runs` of them have ended, then a little longer: an end must come once.
  void WaitForEnds(int runs) {
    const Nanos until = clock_.Now() + FromSeconds(60);
    const auto ends = [&] {
      int count = 0;
      for (const auto& [run, seen] : seen_) count += seen.finished + seen.failed;
      return count;
    };
    while (ends() < runs) {
      const auto event = events_.Next(until);
      ASSERT_TRUE(event) << "only " << ends() << " of " << runs << " ended";
      Note(*event);
    }
    while (const auto event = events_.Next(clock_.Now() + FromMillis(100))) Note(*event);
    EXPECT_EQ(ends(), runs);
  }

  SystemClock clock_;
  LiveEvents events_{clock_};
  cluster::Cluster cluster_;
  std::unique_ptr<LocalExecutor> executor_;
  std::map<uint32_t, Seen> seen_;
};

TEST_F(Local, EveryStartEndsOnceWithAllItsInputs) {
  ASSERT_TRUE(executor_->Start(Make(0, kTiny, 9, 4)));
  ASSERT_TRUE(executor_->Start(Make(1, kSteady, 20, 6, {1})));
  WaitForEnds(2);
  EXPECT_EQ(seen_[0].inputs, 9);
  EXPECT_EQ(seen_[1].inputs, 20);
  for (const uint32_t run : {0, 1}) {
    EXPECT_EQ(seen_[run].loaded, 1);
    EXPECT_EQ(seen_[run].finished, 1);
  }
  ASSERT_EQ(executor_->Records().size(), 2u);
}

TEST_F(Local, AGangEndsWhenAllItsPartsHave) {
  ASSERT_TRUE(executor_->Start(Make(0, kSteady, 13, 4, {0, 1})));
  WaitForEnds(1);
  EXPECT_EQ(seen_[0].inputs, 13);
  EXPECT_EQ(seen_[0].loaded, 1);
  EXPECT_EQ(seen_[0].finished, 1);
}

TEST_F(Local, StopMayBeRepeatedAndEndsTheRunOnce) {
  ASSERT_TRUE(executor_->Start(Make(0, kSteady, 1'000'000, 4)));
  while (seen_[0].inputs < 8) Note(*events_.Next(clock_.Now() + FromSeconds(30)));
  executor_->Stop(RunId(0));
  executor_->Stop(RunId(0));
  WaitForEnds(1);
  executor_->Stop(RunId(0));
  executor_->Stop(RunId(77));
  EXPECT_EQ(seen_[0].failed, 1);
  EXPECT_EQ(seen_[0].why, "stopped");
}

TEST_F(Local, AWorkerThatDoesNotHeedStopIsKilled) {
  // One chunk of a million inputs: no edge to stop at.
  ASSERT_TRUE(executor_->Start(Make(0, kSteady, 1'000'000, 0)));
  while (seen_[0].loaded == 0) Note(*events_.Next(clock_.Now() + FromSeconds(30)));
  executor_->Stop(RunId(0));
  WaitForEnds(1);
  EXPECT_EQ(seen_[0].why, "stopped");
}

TEST_F(Local, FailureIsAnEventAndHurtsNobodyElse) {
  ASSERT_TRUE(executor_->Start(Make(0, kBroken, 4, 4)));
  ASSERT_TRUE(executor_->Start(Make(1, kSteady, 60, 4, {1})));
  Launch greedy = Make(2, kHungry, 40, 40);
  greedy.memory_limit = MiB(300);
  ASSERT_TRUE(executor_->Start(greedy));
  WaitForEnds(3);
  EXPECT_THAT(seen_[0].why, HasSubstr("broken.onnx"));
  EXPECT_EQ(seen_[1].finished, 1);
  EXPECT_EQ(seen_[1].inputs, 60);
#if !defined(__SANITIZE_ADDRESS__) && !defined(HASE_SANITIZED)
  EXPECT_EQ(seen_[2].failed, 1);
  EXPECT_TRUE(seen_[2].out_of_memory) << seen_[2].why;
#endif
}

TEST_F(Local, WhatCannotBeStartedIsRefusedAtOnce) {
  EXPECT_FALSE(executor_->Start(Make(0, 99, 4, 4)));
  EXPECT_FALSE(executor_->Start(Make(0, kTiny, 4, 4, {7})));
  EXPECT_FALSE(executor_->Start(Make(0, kTiny, 0, 4)));
}

TEST_F(Local, WaitingCostsNoProcessorTime) {
  const auto processor = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  ASSERT_TRUE(executor_->Start(Make(0, kSteady, 200, 20)));
  const double before = processor();
  const Nanos begin = clock_.Now();
  WaitForEnds(1);
  EXPECT_LT(processor() - before, 0.05 * ToSeconds(clock_.Now() - begin) + 0.02);
}

TEST(LocalExecutorTest, RefusesDevicesOfOtherMachines) {
  cluster::Cluster cluster;
  cluster::DeviceType type;
  type.runtime = model::Runtime::kTensorRt;
  cluster.types.push_back(type);
  cluster::Device device;
  device.name = "far/0";
  cluster.devices.push_back(device);
  const SystemClock clock;
  LiveEvents events(clock);
  const auto executor = LocalExecutor::Make(cluster, {}, events, {});
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(executor.error().message, HasSubstr("far/0"));
}

// Elsewhere than on a GPU machine the CUDA provider must say clearly what is missing.
TEST(LocalExecutorTest, RefusesCudaWhereItCannotRun) {
  if (model::ort::ProviderUsable(model::ort::Provider::kCuda))
    GTEST_SKIP() << "the CUDA provider works here";
  cluster::Cluster cluster;
  cluster::DeviceType type;
  type.runtime = model::Runtime::kOrtCuda;
  cluster.types.push_back(type);
  cluster.devices.push_back({});
  const SystemClock clock;
  LiveEvents events(clock);
  const auto executor = LocalExecutor::Make(cluster, {}, events, {});
  ASSERT_FALSE(executor);
  EXPECT_THAT(executor.error().message, HasSubstr("CUDA"));
}

TEST(LiveEventsTest, GivesEventsInOrderOfTimeAndNotBefore) {
  const SystemClock clock;
  LiveEvents events(clock);
  events.At(FromMillis(40), JobArrived{JobId(2)});
  events.At(FromMillis(20), JobArrived{JobId(1)});
  events.Post(JobArrived{JobId(0)});
  for (const uint32_t job : {0, 1, 2}) {
    const auto event = events.Next(std::nullopt);
    ASSERT_TRUE(event);
    EXPECT_EQ(std::get<JobArrived>(event->what).job, JobId(job));
    EXPECT_LE(event->time, clock.Now());
  }
  EXPECT_FALSE(events.Next(clock.Now() + FromMillis(5)));
  EXPECT_FALSE(events.Next(Nanos(0)));
  EXPECT_FALSE(events.Next(std::nullopt)) << "nothing can come: nothing runs";
  events.Expect();
  events.At(clock.Now() + FromMillis(5), RunFinished{});
  EXPECT_TRUE(events.Next(std::nullopt));
  events.Close();
  EXPECT_FALSE(events.Next(std::nullopt));
}

}  // namespace
}  // namespace hase::execution

// Every row of the table of policies obeys the contract: nothing double-booked, memory never
// overcommitted, constraints obeyed, every job ends, the same view gives the same plan.
#include "placement/policy.h"

#include <gtest/gtest.h>

#include "placement/test_world.h"

namespace hase::placement {
namespace {

std::unique_ptr<Policy> Make(std::string_view spec) {
  auto policy = MakePolicy(spec);
  EXPECT_TRUE(policy.has_value()) << policy.error().message;
  return policy ? std::move(*policy) : nullptr;
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, ObeysTheContractInRandomWorlds) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    TestWorld world = RandomWorld(seed, seed % 2 == 0);
    const auto policy = Make(GetParam());
    ASSERT_TRUE(policy);
    const auto outcome = world.Run(*policy);
    EXPECT_TRUE(outcome.broken.empty()) << "seed " << seed << ": " << outcome.broken.front();
    EXPECT_FALSE(outcome.stuck) << "seed " << seed;
    for (const TestJob& job : world.jobs) {
      EXPECT_TRUE(job.rejected || job.job.inputs_left == 0) << "seed " << seed;
    }
    if (HasFailure()) return;
  }
}

TEST_P(EveryPolicy, SameWorldSameRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    double makespan[2];
    for (double& m : makespan) {
      TestWorld world = RandomWorld(seed, true);
      m = world.Run(*Make(GetParam())).makespan_s;
    }
    EXPECT_EQ(makespan[0], makespan[1]) << "seed " << seed;
  }
}

TEST_P(EveryPolicy, RejectsWhatCanNeverRun) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(4));
  const ModelId big = world.estimator.Add({.latency_s = {0.1}, .memory = GiB(5)});
  const ModelId small = world.estimator.Add({.latency_s = {0.1}});
  world.AddJob(big, 10, 0);
  world.AddJob(small, 10, 0).gang = 3;
  world.AddJob(small, 10, 0);
  std::vector<Reject> rejects;
  const auto outcome = world.Run(*Make(GetParam()), [&](const PlanningView&, const Plan& plan) {
    for (const Decision& d : plan.decisions) {
      if (const auto* reject = std::get_if<Reject>(&d)) rejects.push_back(*reject);
    }
  });
  ASSERT_EQ(rejects.size(), 2u);
  EXPECT_EQ(rejects[0].why, "needs 5.00 GiB, the largest admissible device has 4.00 GiB");
  EXPECT_EQ(rejects[1].why, "needs 3 devices at once, 2 can hold it");
  EXPECT_EQ(rejects[1].nearest_feasible, "a gang of 2 would fit");
  EXPECT_GT(world.jobs[2].finish_s, 0);
  EXPECT_TRUE(outcome.broken.empty());
}

std::vector<std::string> Specs() {
  std::vector<std::string> specs;
  for (const PolicyRow& row : Policies()) {
    specs.emplace_back(row.name);
    if (row.name != "hase") specs.push_back(std::string(row.name) + ":sharing=on");
  }
  return specs;
}
INSTANTIATE_TEST_SUITE_P(Table, EveryPolicy, testing::ValuesIn(Specs()), [](const auto& row) {
  std::string name = row.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

TEST(MakePolicy, NamesWhatItDoesNotKnow) {
  EXPECT_NE(MakePolicy("no-such").error().message.find("round-robin"), std::string::npos);
  EXPECT_EQ(MakePolicy("fifo:speed=3").error().message,
            "policy 'fifo' has no option 'speed' (it has: sharing)");
  EXPECT_EQ(MakePolicy("random:seed=x").error().message.find("policy 'random': seed=x"), 0u);
  EXPECT_EQ(MakePolicy("fifo:sharing=off,sharing=on").error().message,
            "policy 'fifo': option 'sharing' is given twice");
}

TEST(RoundRobin, IsCyclicAtArrivalAndKeepsOrderPerDevice) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(4));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  // Device 0: 10 s then 1 s; device 1: 1 s, 1 s and then idle, though a job waits for device 0.
  world.AddJob(model, 10, 0);
  world.AddJob(model, 1, 0);
  world.AddJob(model, 1, 0);
  world.AddJob(model, 1, 0);
  world.Run(*Make("round-robin"));
  EXPECT_NEAR(world.jobs[0].finish_s, 10, 1e-6);
  EXPECT_NEAR(world.jobs[1].finish_s, 1, 1e-6);
  EXPECT_NEAR(world.jobs[2].finish_s, 11, 1e-6);
  EXPECT_NEAR(world.jobs[3].finish_s, 2, 1e-6);
}

TEST(Mct, WaitsForAFasterDeviceWhenThatEndsEarlier) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(4));
  world.AddDevices(1, DeviceTypeId(1), GiB(4));
  const ModelId model = world.estimator.Add({.latency_s = {1, 10}});
  world.AddJob(model, 2, 0);
  world.AddJob(model, 3, 0);  // fast at 2 s, done at 5 s; slow at once, done at 30 s
  EXPECT_NEAR(world.Run(*Make("mct")).makespan_s, 5, 1e-6);
}

TEST(GavelLp, GivesTheFastTypeToThoseWhoNeedItMost) {
  // Type 0 takes 10 s for each; type 1 takes 11 s for the first, 40 s for the others.
  const auto run = [](const char* policy) {
    TestWorld world;
    world.AddDevices(1, DeviceTypeId(0), GiB(4));
    world.AddDevices(1, DeviceTypeId(1), GiB(4));
    world.AddJob(world.estimator.Add({.latency_s = {10, 11}}), 1, 0);
    const ModelId other = world.estimator.Add({.latency_s = {10, 40}});
    world.AddJob(other, 1, 0);
    world.AddJob(other, 1, 0);
    return world.Run(*Make(policy)).makespan_s;
  };
  EXPECT_NEAR(run("gavel-lp"), 20, 1e-6);
  EXPECT_NEAR(run("mct"), 30, 1e-6);
}

}  // namespace
}  // namespace hase::placement

// What policy `hase` puts together: sets of residents, and gangs.
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "placement/policy.h"
#include "placement/test_world.h"

namespace hase::placement {
namespace {

std::unique_ptr<Policy> Make(std::string_view spec) { return std::move(*MakePolicy(spec)); }

// Most residents at once on any device.
size_t MostTogether(TestWorld& world, std::string_view spec, double* makespan_s = nullptr) {
  size_t most = 0;
  const auto outcome = world.Run(*Make(spec), [&](const PlanningView& view, const Plan&) {
    for (const DeviceState& d : view.devices) most = std::max(most, d.residents.size());
  });
  EXPECT_TRUE(outcome.broken.empty()) << outcome.broken.front();
  if (makespan_s) *makespan_s = outcome.makespan_s;
  return most;
}

TestWorld ManyAlike(double compute_part, double contention) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16), {cluster::ShareMode::kMps});
  const ModelId model = world.estimator.Add(
      {.latency_s = {1}, .compute_part = compute_part, .contention = contention});
  for (int j = 0; j < 40; ++j) world.AddJob(model, 10, 0);
  return world;
}

TEST(HaseCompany, FourStartTogetherWhereNoneMindsTheOthers) {
  TestWorld world = ManyAlike(0, 0.02);
  double makespan_s = 0;
  EXPECT_EQ(MostTogether(world, "hase", &makespan_s), 4u);
  EXPECT_LT(makespan_s, 400 / 4 * 1.06 * 1.1);
}

TEST(HaseCompany, OnlyAsManyAsPay) {
  TestWorld two = ManyAlike(0, 0.7);  // two do 1.18 times one's work, three 1.25, four 1.29
  EXPECT_GE(MostTogether(two, "hase"), 2u);
  TestWorld none = ManyAlike(0.9, 0.3);
  EXPECT_LE(MostTogether(none, "hase"), 1u);
}

// Those who start together share a host as well: each alone would fit, three do not.
TEST(HaseCompany, TheHostHoldsThemAll) {
  TestWorld world = ManyAlike(0, 0.02);
  world.nodes = {{8000, 8000, GiB(64), GiB(64)}};
  for (auto& test : world.jobs) test.job.host_cores_milli = 3000;
  int most = 0;
  world.Run(*Make("hase"), [&](const PlanningView&, const Plan& plan) {
    int started = 0;
    for (const Decision& decision : plan.decisions)
      started += std::holds_alternative<Start>(decision);
    most = std::max(most, started);
  });
  EXPECT_EQ(most, 2);
}

// With a queue much longer than the plan, company is chosen among more jobs than hold promises:
// the first in order do not fit each other's memory, those behind them do.
TEST(HaseCompany, LooksBeyondThePromisedJobs) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16), {cluster::ShareMode::kMps});
  FakeEstimator::Model model{.latency_s = {1}, .compute_part = 0, .contention = 0.02};
  model.memory = GiB(10);
  const ModelId large = world.estimator.Add(model);
  model.memory = GiB(1);
  const ModelId small = world.estimator.Add(model);
  for (int j = 0; j < 10; ++j) world.AddJob(large, 20, 0);
  for (int j = 0; j < 300; ++j) world.AddJob(small, 2, 0);
  size_t beside_large = 0;
  world.Run(*Make("hase"), [&](const PlanningView& view, const Plan&) {
    const auto& residents = view.devices[0].residents;
    const auto is_large = [&](const Resident& r) { return r.tenant.model == large; };
    if (std::ranges::any_of(residents, is_large)) {
      beside_large = std::max(beside_large, residents.size() - 1);
    }
  });
  EXPECT_EQ(beside_large, 3u);
}

// Four cards of one type whose speeds lie more than a class apart are still one type: gangs that
// fit both types run on both at once instead of queueing for the type of even cards.
TEST(HaseGangs, TakeCardsOfOneTypeAndUnlikeSpeeds) {
  for (const char* spec : {"hase", "lpt-mct"}) {
    TestWorld world;
    world.AddDevices(4, DeviceTypeId(0), GiB(16));
    for (const double speed : {0.9, 1.0, 1.1, 1.2}) {
      world.AddDevices(1, DeviceTypeId(1), GiB(16), {}, speed);
    }
    const ModelId model = world.estimator.Add({.latency_s = {1, 1}});
    for (int j = 0; j < 8; ++j) world.AddJob(model, 40, 0).gang = 4;
    const auto outcome = world.Run(*Make(spec));
    EXPECT_TRUE(outcome.broken.empty());
    EXPECT_LT(outcome.makespan_s, 50) << spec;  // one after another: 80 s
  }
}

}  // namespace
}  // namespace hase::placement

// What is particular to policy `hase`: promises, fairness, sharing, cutting, faults, and how it
// compares with its rivals. The contract of every policy is in policy_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "placement/admission.h"
#include "placement/bounds.h"
#include "placement/forecast.h"
#include "placement/policy.h"
#include "placement/test_world.h"

namespace hase::placement {
namespace {

std::unique_ptr<Policy> Make(std::string_view spec) { return std::move(*MakePolicy(spec)); }

constexpr const char* kScenarioSpecs[] = {"hase", "hase:objective=completion",
                                          "hase:objective=fair", "hase:overdue_s=3"};

// Exact predictions: no promise breaks, nothing is booked twice, no memory overcommitted (the
// test world checks these at every start); devices that are lost are another test's.
TEST(HasePromises, ExactPredictionsBreakNone) {
  int made = 0;
  double early_s = 0, waited_s = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    TestWorld world = RandomWorld(seed, seed % 3 == 0, /*error=*/0);
    const auto outcome = world.Run(*Make(kScenarioSpecs[seed % 4]));
    ASSERT_TRUE(outcome.broken.empty()) << "seed " << seed << ": " << outcome.broken.front();
    for (const auto& promise : outcome.promises) {
      ++made;
      const double start = world.jobs[promise.job.index()].first_start_s;
      early_s += promise.from_s - start;
      waited_s += start - promise.made_s;
      EXPECT_TRUE(promise.kept) << "seed " << seed << ", job " << promise.job.index()
                                << ", promised at " << promise.made_s << " by " << promise.from_s
                                << " s, started at " << start;
    }
  }
  // A promise is worth something only if it says when: half of the wait or less may be slack.
  std::printf("exact predictions: %d promises, waits of %.2f s, promised %.2f s later on average\n",
              made, waited_s / made, early_s / made);
  EXPECT_GT(made, 2000);
  EXPECT_LT(early_s, 0.5 * waited_s);
}

// The first finish that the residents allow this job, by trying every device.
double FirstFinish(const PlanningView& view, const QueuedJob& job,
                   std::span<const DeviceState> devices) {
  double first = std::numeric_limits<double>::infinity();
  for (const DeviceState& device : devices) {
    if (!device.up || EverFits(view, job, device) != Obstacle::kNone) continue;
    const auto time = SoloTime(view, job, job.inputs_left, device);
    const double free = ForecastDevice(view, device).until_free.mean_s;
    first = std::min(first, free + time->mean_s);
  }
  return first;
}

// The job that has waited longest, once that is longer than W: what is started beside it leaves the
// first finish that it could have as it was.
TEST(HaseFairness, NoStartDelaysWhoHasWaitedTooLong) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    TestWorld world = RandomWorld(seed, seed % 2 == 0, /*error=*/0);
    const auto policy =
        Make(seed % 3 == 0 ? "hase:overdue_s=2" : "hase:overdue_s=2,reservation_depth=0");
    world.Run(*policy, [&](const PlanningView& view, const Plan& plan) {
      const auto oldest = std::ranges::find_if(view.queue, [](const QueuedJob& job) {
        return job.running_parts == 0 && job.gang == 1 && job.max_parallel == 1;
      });
      if (oldest == view.queue.end() || ToSeconds(view.now - oldest->arrival) < 2) return;
      if (oldest != view.queue.begin()) return;  // an older gang or cut job comes first
      // Promises that stand come first; with a depth of 0 there are none.
      for (const QueuedJob& job : view.queue) {
        if (job.id != oldest->id && !job.promise.devices.empty()) return;
      }
      std::vector<DeviceState> after(view.devices.begin(), view.devices.end());
      bool started = false, as_old = false;  // jobs that came together may overtake each other
      for (const Decision& decision : plan.decisions) {
        const auto* start = std::get_if<Start>(&decision);
        if (!start) continue;
        started = started || start->job == oldest->id;
        const auto job = std::ranges::find(view.queue, start->job, &QueuedJob::id);
        as_old = as_old || (start->job != oldest->id && job->arrival == oldest->arrival);
        for (const Slot& slot : start->slots) {
          DeviceState& device = after[slot.device.index()];
          device.residents.push_back(
              *AsResident(view, *job, start->inputs, device, slot.share, slot.mode));
        }
      }
      if (started || as_old) return;
      ++checked;
      EXPECT_LE(FirstFinish(view, *oldest, after), FirstFinish(view, *oldest, view.devices) + 1e-6)
          << "seed " << seed << ", t " << ToSeconds(view.now) << ", job " << oldest->id.index();
    });
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 200);
}

TEST(HasePromises, AFreshPolicyDecidesTheSame) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    TestWorld world = RandomWorld(seed, seed % 2 == 0, 0.2);
    const auto policy = Make("hase");
    world.Run(*policy, [&](PlanningView view, const Plan& plan) {
      view.everything_changed = true;
      const auto starts = [](const Plan& p) {
        std::vector<std::pair<uint32_t, uint32_t>> all;
        for (const Decision& d : p.decisions) {
          if (const auto* s = std::get_if<Start>(&d)) {
            for (const Slot& slot : s->slots) all.emplace_back(s->job.index(), slot.device.index());
          }
        }
        return all;
      };
      EXPECT_EQ(starts(Make("hase")->Decide(view)), starts(plan)) << "seed " << seed;
    });
    if (HasFailure()) return;
  }
}

// One class of devices under steady load with mispredicted jobs: how many promises are kept?
TEST(HasePromises, AreKeptAsOftenAsPromised) {
  for (const double probability : {0.8, 0.9, 0.95}) {
    int made = 0, kept = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Rng rng(seed);
      TestWorld world;
      world.AddDevices(4, DeviceTypeId(0), GiB(16));
      world.AddDevices(4, DeviceTypeId(1), GiB(16));
      double arrival = 0;
      for (int j = 0; j < 80; ++j) {
        const double base = rng.Uniform(0.01, 0.1);
        const ModelId model = world.estimator.Add({.latency_s = {base, 2 * base}, .sigma = 0.2});
        world.AddJob(model, rng.UniformInt(50, 150), arrival, std::exp(0.2 * rng.Normal() - 0.02));
        arrival += rng.Exponential(1 / 0.95);
      }
      const auto outcome = world.Run(*Make("hase:probability=" + std::to_string(probability)));
      for (const auto& promise : outcome.promises) {
        ++made;
        kept += promise.kept;
      }
    }
    const double fraction = static_cast<double>(kept) / made;
    std::printf("promised %.2f: kept %.3f of %d\n", probability, fraction, made);
    EXPECT_NEAR(fraction, probability, 0.02);
  }
}

TEST(HaseComplaints, HalfCardJobsPackTwoPerCard) {
  TestWorld world;
  world.AddDevices(8, DeviceTypeId(0), GiB(16), {cluster::ShareMode::kMps});
  const ModelId model =
      world.estimator.Add({.latency_s = {0.05}, .memory = GiB(8), .compute_part = 0.3});
  for (int j = 0; j < 16; ++j) world.AddJob(model, 100, 0);
  const auto outcome = world.Run(*Make("hase"));
  for (const TestJob& job : world.jobs) EXPECT_EQ(job.first_start_s, 0);
  // 5 s alone; on half a device beside another 5 · (0.7 + 0.3 · 2) · 1.1 s, all sixteen at once.
  EXPECT_NEAR(outcome.makespan_s, 5 * 1.3 * 1.1, 1e-6);
}

TEST(HaseComplaints, SharingThatDoesNotPayIsLeftAlone) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(16), {cluster::ShareMode::kMps});
  const ModelId model = world.estimator.Add({.latency_s = {0.05}, .compute_part = 1});
  for (int j = 0; j < 8; ++j) world.AddJob(model, 100, 0);
  EXPECT_EQ(world.Run(*Make("hase")).co_located, 0);
}

TEST(HaseComplaints, ALargeGangIsNotStarvedBySmallJobs) {
  TestWorld world;
  world.AddDevices(4, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  for (int j = 0; j < 4; ++j) world.AddJob(model, 4 + j, 0);
  world.AddJob(model, 40, 0.5).gang = 4;
  for (int j = 0; j < 60; ++j) world.AddJob(model, 3, 1 + 0.5 * j);
  for (const char* spec : {"hase", "hase:objective=completion", "hase:objective=fair"}) {
    TestWorld run = world;
    run.Run(*Make(spec));
    // Promised behind the four running jobs at the latest; the stream would last 45 s.
    EXPECT_LE(run.jobs[4].first_start_s, 12) << spec;
  }
}

TEST(HaseComplaints, OrderDoesNotBlockOtherDeviceTypes) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  world.AddDevices(1, DeviceTypeId(1), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1, 1}});
  for (int j = 0; j < 5; ++j) world.AddJob(model, 50, 0).device_types = {DeviceTypeId(0)};
  world.AddJob(model, 1, 0).device_types = {DeviceTypeId(1)};
  world.Run(*Make("hase"));
  EXPECT_EQ(world.jobs[5].first_start_s, 0);
}

TEST(HaseComplaints, APromiseOnADeviceThatFailsMovesElsewhere) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 10, 0);
  world.AddJob(model, 20, 0);
  world.AddJob(model, 5, 0);  // promised on device 0 or 1 at 10 s
  world.failures.push_back({5, DeviceId(0)});
  const auto outcome = world.Run(*Make("hase"));
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_FALSE(outcome.stuck);
  for (const TestJob& job : world.jobs) EXPECT_EQ(job.job.inputs_left, 0);
}

TEST(HaseComplaints, OfTwoIdleCardsTheFasterOneIsTaken) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16), {}, 1.2);
  world.AddDevices(1, DeviceTypeId(0), GiB(16), {}, 0.98);
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 10, 0);
  EXPECT_NEAR(world.Run(*Make("hase")).makespan_s, 9.8, 1e-6);
}

// Each ablation switches off what it says, and nothing stays as it was.
TEST(HaseAblation, BackfillOffKeepsTheOrder) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 10, 0);
  world.AddJob(model, 9, 1).gang = 2;  // waits for both devices until 10 s
  world.AddJob(model, 5, 2);           // would be done by then
  TestWorld strict = world;
  world.Run(*Make("hase"));
  strict.Run(*Make("hase:backfill=off"));
  EXPECT_NEAR(world.jobs[2].first_start_s, 2, 1e-6);
  EXPECT_NEAR(strict.jobs[2].first_start_s, 15, 1e-6);  // behind the gang's 5 s
}

TEST(HaseAblation, ReservationOffPromisesNothing) {
  size_t made = 0, made_off = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    TestWorld world = RandomWorld(seed, false), silent = world;
    made += world.Run(*Make("hase")).promises.size();
    made_off += silent.Run(*Make("hase:reservation=off")).promises.size();
  }
  EXPECT_GT(made, 0u);
  EXPECT_EQ(made_off, 0u);
}

TEST(HaseAblation, InterferenceOffSharesWhereItDoesNotPay) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(16), {cluster::ShareMode::kMps});
  const ModelId model = world.estimator.Add({.latency_s = {0.05}, .compute_part = 1});
  for (int j = 0; j < 8; ++j) world.AddJob(model, 100, 0);
  EXPECT_GT(world.Run(*Make("hase:interference=off")).co_located, 0);
}

TEST(HaseAblation, QuantileOffPromisesMeans) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}, .sigma = 0.3});
  world.AddJob(model, 10, 0);
  world.AddJob(model, 5, 0);
  TestWorld mean = world;
  const double late = world.Run(*Make("hase")).promises.at(0).from_s;
  EXPECT_NEAR(mean.Run(*Make("hase:quantile=off")).promises.at(0).from_s,
              10 * std::exp(0.3 * 0.3 / 2), 1e-6);
  EXPECT_GT(late, 13);
}

TEST(HaseAblation, ChunkingOffRunsInOnePiece) {
  TestWorld world;
  world.AddDevices(2, DeviceTypeId(0), GiB(16));
  world.AddJob(world.estimator.Add({.latency_s = {1}}), 10, 0).max_parallel = 2;
  TestWorld whole = world;
  EXPECT_NEAR(world.Run(*Make("hase")).makespan_s, 5, 1e-6);
  EXPECT_NEAR(whole.Run(*Make("hase:chunking=off")).makespan_s, 10, 1e-6);
}

// On paper the second type is twice as fast; for this model it is half as fast.
TEST(HaseAblation, SpecificationsMislead) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  world.AddDevices(1, DeviceTypeId(1), GiB(16));
  world.types[0].spec.peak_tflops[0] = 10;
  world.types[1].spec.peak_tflops[0] = 20;
  const ModelId model = world.estimator.Add({.latency_s = {1, 2}});
  world.AddJob(model, 10, 0);
  TestWorld misled = world;
  world.Run(*Make("hase"));
  EXPECT_NEAR(world.jobs[0].finish_s, 10, 1e-6);
  misled.Run(*Make("hase:estimates=spec"));
  EXPECT_NEAR(misled.jobs[0].finish_s, 20, 1e-6);
}

TEST(HaseDeadlines, RejectOrRunLate) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 10, 0).deadline = FromSeconds(7.5);
  TestWorld late = world;
  std::string why;
  late.Run(*Make("hase"), [&](const PlanningView&, const Plan& plan) {
    for (const Decision& d : plan.decisions) {
      if (const auto* s = std::get_if<Start>(&d)) why = s->record.why;
    }
  });
  EXPECT_NE(why.find("will miss its deadline by 2.5 s"), std::string::npos) << why;
  world.Run(*Make("hase:deadline=reject"));
  EXPECT_TRUE(world.jobs[0].rejected);
}

TEST(HaseDeadlines, AnUrgentJobGoesFirst) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 20, 0);
  world.AddJob(model, 5, 0).deadline = FromSeconds(8);
  world.Run(*Make("hase"));
  EXPECT_EQ(world.jobs[1].first_start_s, 0);
}

TEST(HasePriorities, WaitingRaisesThem) {
  TestWorld world;
  world.AddDevices(1, DeviceTypeId(0), GiB(16));
  const ModelId model = world.estimator.Add({.latency_s = {1}});
  world.AddJob(model, 10, 0);
  world.AddJob(model, 5, 0);
  for (int j = 0; j < 20; ++j) world.AddJob(model, 10, 1 + 9 * j).priority = 1;
  TestWorld never = world;
  world.Run(*Make("hase:ageing_s=30,reservation_depth=0"));
  never.Run(*Make("hase:ageing_s=1e6,overdue_s=1e6,reservation_depth=0"));
  EXPECT_LT(world.jobs[1].first_start_s, 100);
  EXPECT_GT(never.jobs[1].first_start_s, 190);
}

// Divisible jobs on unlike devices, no loading: the linear programme is attainable, nearly.
TEST(HaseCutting, ComesNearTheDivisibleBound) {
  double sum = 0;
  constexpr int kSeeds = 30;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Rng rng(seed);
    TestWorld world;
    for (uint32_t t = 0; t < 4; ++t) world.AddDevices(2, DeviceTypeId(t), GiB(16));
    BoundInstance instance{{{2, 1}, {2, 1}, {2, 1}, {2, 1}}, {}};
    for (int j = 0; j < 12; ++j) {
      FakeEstimator::Model model;
      for (const double s : {1.0, 0.7, 0.4, 0.25}) {
        model.latency_s.push_back(rng.Uniform(0.009, 0.011) / s);
      }
      const int64_t inputs = rng.UniformInt(500, 5000);
      world.AddJob(world.estimator.Add(model), inputs, 0).max_parallel = 1000;
      BoundJob bound{0, true, 1, {}};
      for (const double p : model.latency_s) bound.p_s.push_back(p * static_cast<double>(inputs));
      instance.jobs.push_back(bound);
    }
    const double ours = world.Run(*Make("hase:sharing=off")).makespan_s;
    sum += ours / MakespanLowerBound(instance);
  }
  std::printf("divisible jobs: makespan / bound %.4f\n", sum / kSeeds);
  EXPECT_LE(sum / kSeeds, 1.05);
}

struct Figures {
  double makespan_s = 0, flow_s = 0;
};

// 16 devices of 4 types, 20 jobs each: offline (load 0) or arriving at a load.
Figures Compare(std::string_view spec, double load, bool shareable, uint64_t seeds) {
  Figures sum;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Rng rng(seed);
    TestWorld world;
    constexpr double kSpeed[] = {1, 0.7, 0.4, 0.25};
    std::vector<cluster::ShareMode> modes;
    if (shareable) modes.push_back(cluster::ShareMode::kMps);
    for (uint32_t t = 0; t < 4; ++t) world.AddDevices(4, DeviceTypeId(t), GiB(16), modes);
    std::vector<ModelId> models;
    for (int m = 0; m < 12; ++m) {
      FakeEstimator::Model model;
      for (const double s : kSpeed) model.latency_s.push_back(0.01 / s * rng.Uniform(0.8, 1.25));
      model.load_s = 0.2;
      model.memory = MiB(rng.UniformInt(500, 7000));
      model.compute_part = rng.Uniform(0.2, 0.7);
      models.push_back(world.estimator.Add(model));
    }
    double arrival = 0;
    for (int j = 0; j < 320; ++j) {
      // One draw a statement: compilers differ in the order of arguments.
      const auto model = static_cast<size_t>(rng.UniformInt(0, 11));
      const auto inputs = static_cast<int64_t>(std::min(rng.Pareto(300, 1.5), 4000.0));
      world.AddJob(models[model], inputs, arrival);
      if (load > 0) arrival += rng.Exponential(load * 4 * (1 + 0.7 + 0.4 + 0.25) / 7.5);
    }
    const auto outcome = world.Run(*Make(spec));
    sum.makespan_s += outcome.makespan_s / static_cast<double>(seeds);
    sum.flow_s += outcome.mean_flow_s / static_cast<double>(seeds);
  }
  return sum;
}

TEST(HaseRivals, NotWorseThanTheStrongestWithoutSharingAndBetterWithIt) {
  constexpr uint64_t kSeeds = 12;
  for (const double load : {0.0, 0.95}) {
    const Figures lpt = Compare("lpt-mct", load, true, kSeeds),
                  spt = Compare("spt-mct", load, true, kSeeds);
    const Figures makespan = Compare("hase:sharing=off", load, true, kSeeds);
    const Figures completion = Compare("hase:objective=completion,sharing=off", load, true, kSeeds);
    const Figures shared = Compare("hase", load, true, kSeeds);
    const Figures shared_completion = Compare("hase:objective=completion", load, true, kSeeds);
    const Figures lpt_shared = Compare("lpt-mct:sharing=on", load, true, kSeeds);
    const Figures spt_shared = Compare("spt-mct:sharing=on", load, true, kSeeds);
    std::printf(
        "load %.2f: makespan s: lpt-mct %.1f (sharing %.1f), hase without %.1f, with %.1f; mean "
        "completion s: spt-mct %.2f (sharing %.2f), hase without %.2f, with %.2f\n",
        load, lpt.makespan_s, lpt_shared.makespan_s, makespan.makespan_s, shared.makespan_s,
        spt.flow_s, spt_shared.flow_s, completion.flow_s, shared_completion.flow_s);
    EXPECT_LE(makespan.makespan_s, 1.02 * lpt.makespan_s);
    EXPECT_LE(completion.flow_s, 1.02 * spt.flow_s);
    if (load > 0) continue;  // below saturation the device is seldom the bottleneck
    EXPECT_LE(shared.makespan_s, 0.9 * lpt.makespan_s);
    EXPECT_LE(shared_completion.flow_s, 0.9 * spt.flow_s);
    // Static halves for everybody do better here (docs/limits.md); what is asserted is by how much.
    EXPECT_LE(shared.makespan_s, 1.05 * lpt_shared.makespan_s);
  }
}

}  // namespace
}  // namespace hase::placement

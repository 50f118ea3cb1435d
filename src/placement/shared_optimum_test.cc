// The exact optimum with sharing: by hand, and what no policy on whole jobs can beat.
#include "placement/shared_optimum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "placement/bounds.h"
#include "placement/test_world.h"

namespace hase::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Each job runs at `rate[n - 1]` beside n - 1 others, whatever its share.
struct ByHand final : SharedWorld {
  std::vector<std::vector<double>> solo;  // by device, job
  std::vector<double> rate = {1};         // by number of residents; more may not be together
  double SoloSeconds(size_t device, size_t job) const override { return solo[device][job]; }
  std::vector<double> Rates(size_t, std::span<const Tenure> together) const override {
    if (together.size() > rate.size()) return {};
    return std::vector(together.size(), rate[together.size() - 1]);
  }
};

TEST(SharedOptimum, ByHand) {
  ByHand world;
  world.solo = {{2, 4, 3}};
  EXPECT_NEAR(*OptimalSharedMakespan(1, 3, world), 9, 1e-9);  // nobody may share
  // Two at 0.75 each: 2 and 4 until 8/3, then 3 beside what is left of 4 (2) until 16/3, then a
  // last second of 3 alone; 4 beside 3 first ends later: 4, then 1 of 4 beside 2, …
  world.rate = {1, 0.75};
  EXPECT_NEAR(*OptimalSharedMakespan(1, 3, world), 19.0 / 3, 1e-9);
  // Company that costs more than it brings is not kept.
  world.rate = {1, 0.4};
  EXPECT_NEAR(*OptimalSharedMakespan(1, 3, world), 9, 1e-9);
  // Two devices, one of which cannot do job 1.
  world.rate = {1};
  world.solo = {{2, 4, 3}, {3, kNever, 4}};
  EXPECT_NEAR(*OptimalSharedMakespan(2, 3, world), 6, 1e-9);
  world.solo = {{2, kNever, 3}};
  EXPECT_FALSE(OptimalSharedMakespan(1, 3, world).has_value());
  EXPECT_FALSE(OptimalSharedMakespan(1, kMostSharedJobs + 1, world).has_value());
  EXPECT_EQ(*OptimalSharedMakespan(1, 0, world), 0);
}

// The test's world, whose executor gives jobs their true speed.
class TestTruth final : public SharedWorld {
 public:
  explicit TestTruth(const TestWorld& world) : world_(world) {}
  double SoloSeconds(size_t device, size_t job) const override {
    const auto* e = Find(device, job);
    if (!e || e->memory() > world_.devices[device].memory_total) return kNever;
    const QueuedJob& j = world_.jobs[job].job;
    return e->Job(BatchesPerSlot(j.inputs_left, j.batch, 1), true).mean_s *
           world_.jobs[job].truth_factor;
  }
  std::vector<double> Rates(size_t device, std::span<const Tenure> together) const override {
    const DeviceState& d = world_.devices[device];
    if (together.size() > 1 && d.modes.empty()) return {};
    if (together[0].quarters < 4 && d.modes.empty()) return {};
    Bytes memory;
    std::vector<latency::Tenant> tenants;
    for (const Tenure& t : together) {
      const QueuedJob& job = world_.jobs[t.job].job;
      if (together.size() > 1 && job.sharing == workload::Sharing::kNever) return {};
      memory += Find(device, t.job)->memory();
      tenants.push_back({job.model, job.batch, MilliShare(250 * t.quarters)});
    }
    if (memory > d.memory_total) return {};
    std::vector<double> rates;
    for (size_t i = 0; i < tenants.size(); ++i) {
      std::vector<latency::Tenant> others = tenants;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      rates.push_back(1 / world_.estimator.Slowdown(tenants[i], d.type, others, {}));
    }
    return rates;
  }

 private:
  const latency::Estimate* Find(size_t device, size_t job) const {
    const QueuedJob& j = world_.jobs[job].job;
    return world_.estimator.Find(j.model, world_.devices[device].type, j.batch);
  }
  const TestWorld& world_;
};

// `compute_part`: at most; the less, the more sharing pays.
TestWorld SmallWorld(uint64_t seed, double compute_part) {
  Rng rng(seed);
  TestWorld world;
  const int types = static_cast<int>(rng.UniformInt(1, 3));
  for (int t = 0; t < types; ++t) {
    std::vector<cluster::ShareMode> modes;
    if (rng.Uniform() < 0.8) modes.push_back(cluster::ShareMode::kMps);
    world.AddDevices(1, DeviceTypeId(static_cast<uint32_t>(t)), GiB(16), modes);
  }
  const int jobs = static_cast<int>(rng.UniformInt(2, 5));
  for (int j = 0; j < jobs; ++j) {
    FakeEstimator::Model model;
    const double base = rng.Uniform(0.5, 5);
    for (int t = 0; t < types; ++t) model.latency_s.push_back(base * rng.Uniform(1, 4));
    model.memory = GiB(rng.UniformInt(1, 9));
    model.compute_part = rng.Uniform(0, compute_part);
    model.contention = rng.Uniform(0, 0.4);
    QueuedJob& job = world.AddJob(world.estimator.Add(model), 1, 0);
    if (rng.Uniform() < 0.2) job.sharing = workload::Sharing::kNever;
  }
  return world;
}

struct Ratios {
  double hase = 0, worst = 0, unshared = 0, hase_unshared = 0, halves = 0;
};

Ratios MeanRatios(double compute_part) {
  Ratios mean;
  constexpr int kInstances = 200;
  for (uint64_t seed = 1; seed <= kInstances; ++seed) {
    const TestWorld world = SmallWorld(seed, compute_part);
    const TestTruth truth(world);
    const size_t devices = world.devices.size(), jobs = world.jobs.size();
    const auto optimum = OptimalSharedMakespan(devices, jobs, truth);
    BoundInstance instance{std::vector<BoundClass>(devices), {}};
    for (size_t j = 0; j < jobs; ++j) {
      BoundJob job;
      for (size_t d = 0; d < devices; ++d) job.p_s.push_back(truth.SoloSeconds(d, j));
      instance.jobs.push_back(std::move(job));
    }
    const auto unshared = OptimalMakespan(instance);
    if (!optimum || !unshared) {
      ADD_FAILURE() << "no optimum, seed " << seed;
      continue;
    }
    EXPECT_LE(*optimum, *unshared * (1 + 1e-6)) << "seed " << seed;
    const auto run = [&](const char* spec) {
      const double ratio =
          SmallWorld(seed, compute_part).Run(**MakePolicy(spec)).makespan_s / *optimum;
      EXPECT_GE(ratio, 1 - 1e-6) << spec << ", seed " << seed;
      return ratio / kInstances;
    };
    const double hase = run("hase");
    mean.hase += hase;
    mean.worst = std::max(mean.worst, hase * kInstances);
    mean.hase_unshared += run("hase:sharing=off");
    mean.halves += run("lpt-mct:sharing=on");
    mean.unshared += *unshared / *optimum / kInstances;
  }
  return mean;
}

TEST(SharedOptimum, NoPolicyBeatsItAndHaseComesNear) {
  for (const double compute_part : {1.0, 0.4}) {
    const Ratios mean = MeanRatios(compute_part);
    std::printf(
        "compute part up to %.1f: hase %.4f (worst %.3f) of the optimum with sharing, without "
        "sharing %.4f (optimum %.4f), lpt-mct on halves %.4f\n",
        compute_part, mean.hase, mean.worst, mean.hase_unshared, mean.unshared, mean.halves);
    EXPECT_LE(mean.hase, 1.05);
  }
}

}  // namespace
}  // namespace hase::placement

// The bounds are bounds: no policy beats them; and `hase` comes near the exact optimum and, on the
// three unlike partitions of the live demonstration, closes most of round-robin's gap.
#include "placement/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "placement/configuration_bound.h"
#include "placement/test_world.h"

namespace hase::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::unique_ptr<Policy> Make(std::string_view spec) { return std::move(*MakePolicy(spec)); }

// The world's true times, class by class (here: device by device).
BoundInstance Truth(const TestWorld& world, double sigma = 1) {
  BoundInstance instance;
  for (size_t d = 0; d < world.devices.size(); ++d) instance.classes.push_back({1, sigma});
  for (const TestJob& test : world.jobs) {
    if (test.rejected) continue;
    BoundJob job{ToSeconds(test.job.arrival), test.job.max_parallel > 1, test.job.gang, {}};
    for (const DeviceState& d : world.devices) {
      const auto* e = world.estimator.Find(test.job.model, d.type, test.job.batch);
      const int64_t inputs = test.job.inputs_left + test.done;
      const bool fits = e && e->memory() <= d.memory_total;
      job.p_s.push_back(
          fits ? e->Job(BatchesPerSlot(inputs, test.job.batch, test.job.gang), true).mean_s *
                     d.speed_factor * test.truth_factor
               : kNever);
    }
    instance.jobs.push_back(std::move(job));
  }
  return instance;
}

TEST(MakespanLowerBound, ByHand) {
  BoundInstance one{{{1, 1}, {1, 1}}, {{0, false, 1, {2, 4}}, {0, false, 1, {2, 4}}}};
  // Divisible work: C = 4 / (1 + 1/2) = 8/3, more than the 2 s that one job takes.
  EXPECT_NEAR(MakespanLowerBound(one), 8.0 / 3, 1e-5);
  EXPECT_NEAR(*OptimalMakespan(one), 4, 1e-9);
  one.jobs[1].release_s = 10;
  EXPECT_NEAR(MakespanLowerBound(one), 12, 1e-4);
  one.classes[0].sigma = one.classes[1].sigma = 2;
  one.jobs[1].release_s = 0;
  EXPECT_NEAR(MakespanLowerBound(one), 2, 1e-5);  // sharing cannot shorten a job
  EXPECT_EQ(MakespanLowerBound({}), 0);
  EXPECT_NEAR(MeanFlowLowerBound(one), 2, 1e-12);
}

TEST(WorkAllocation, ByHand) {
  // 10 x + 1 on type 0, 40 (1 - x) on type 1, which has 3 s to do already and cannot do the second:
  // x = 0.84 makes both end at 9.4.
  const BoundInstance one{{{1, 1}, {1, 1, 3}},
                          {{0, false, 1, {10, 40}}, {0, false, 1, {1, kNever}}}};
  const auto parts = WorkAllocation(one);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NEAR(parts[0][0], 0.84, 1e-6);
  EXPECT_NEAR(parts[0][1], 0.16, 1e-6);
  EXPECT_NEAR(parts[1][0], 1, 1e-6);
  EXPECT_EQ(parts[1][1], 0);
}

TEST(MakespanLowerBound, InadmissibleDevicesDoNoWork) {
  const BoundInstance instance{{{1, 1}, {3, 1}}, {{0, true, 1, {6, kNever}}, {0, true, 1, {9, 3}}}};
  EXPECT_NEAR(MakespanLowerBound(instance), 6, 1e-4);
}

TestWorld SmallWorld(uint64_t seed) {
  Rng rng(seed);
  TestWorld world;
  const int types = static_cast<int>(rng.UniformInt(2, 4));
  for (int t = 0; t < types; ++t) {
    world.AddDevices(1, DeviceTypeId(static_cast<uint32_t>(t)), GiB(16));
  }
  const int jobs = static_cast<int>(rng.UniformInt(2, 8));
  for (int j = 0; j < jobs; ++j) {
    FakeEstimator::Model model;
    const double base = rng.Uniform(0.5, 5);
    for (int t = 0; t < types; ++t) model.latency_s.push_back(base * rng.Uniform(1, 4));
    world.AddJob(world.estimator.Add(model), 1, 0);
  }
  return world;
}

TEST(Hase, ComesNearTheExactOptimumOnSmallInstances) {
  double sum = 0, sum_lpt = 0, worst = 0;
  int count = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    TestWorld world = SmallWorld(seed);
    const auto optimum = OptimalMakespan(Truth(world));
    ASSERT_TRUE(optimum.has_value());
    const double hase = world.Run(*Make("hase:sharing=off")).makespan_s / *optimum;
    TestWorld again = SmallWorld(seed);
    sum_lpt += again.Run(*Make("lpt-mct")).makespan_s / *optimum;
    EXPECT_GE(hase, 1 - 1e-6) << "seed " << seed;
    sum += hase;
    worst = std::max(worst, hase);
    ++count;
  }
  std::printf("makespan / optimum: hase %.4f (worst %.3f), lpt-mct %.4f\n", sum / count, worst,
              sum_lpt / count);
  EXPECT_LE(sum / count, 1.05);
}

// Three partitions of one machine at about 1 : 0.6 : 0.3 with jobs of mixed size, as in the demo.
TestWorld DemoWorld(uint64_t seed, double arrival_window, double error) {
  Rng rng(seed);
  TestWorld world;
  for (uint32_t t = 0; t < 3; ++t) world.AddDevices(1, DeviceTypeId(t), GiB(16));
  constexpr double kSpeed[] = {1, 0.6, 0.3};
  std::vector<ModelId> models;
  std::vector<double> length;
  for (int m = 0; m < 10; ++m) {
    FakeEstimator::Model model;
    const double base = rng.Uniform(0.01, 0.1);
    for (const double s : kSpeed) model.latency_s.push_back(base / s * rng.Uniform(0.9, 1.1));
    model.load_s = rng.Uniform(0.1, 0.4);
    models.push_back(world.estimator.Add(model));
    length.push_back(base);
  }
  const int jobs = static_cast<int>(rng.UniformInt(24, 40));
  double arrival = 0;
  for (int j = 0; j < jobs; ++j) {
    const size_t m = static_cast<size_t>(rng.UniformInt(0, 9));
    const double seconds = rng.Uniform(1, 6);
    world.AddJob(models[m], static_cast<int64_t>(std::ceil(seconds / length[m])), arrival,
                 std::exp(error * rng.Normal()));
    // The window is in units of the time that the three need for all of it together.
    arrival += rng.Exponential(1) * arrival_window * 3.5 / 1.9;
  }
  return world;
}

double MeanClosedGap(double window, double error, std::string_view spec) {
  double closed = 0;
  constexpr int kSeeds = 24;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    TestWorld rr_world = DemoWorld(seed, window, error), world = DemoWorld(seed, window, error);
    const double bound = MakespanLowerBound(Truth(world));
    const double rr = rr_world.Run(*Make("round-robin")).makespan_s;
    const double ours = world.Run(*Make(spec)).makespan_s;
    EXPECT_GE(ours, bound * (1 - 1e-6)) << "seed " << seed;
    closed += (rr - ours) / (rr - bound);
  }
  return closed / kSeeds;
}

TEST(Hase, ClosesTheGapOnThreeUnlikePartitions) {
  for (const double window : {0.0, 0.3, 0.6, 0.9}) {
    for (const double error : {0.0, 0.1}) {
      const double hase = MeanClosedGap(window, error, "hase");
      std::printf(
          "arrivals over %.0f %% of the work, error %.0f %%: closed gap hase %.3f, lpt-mct "
          "%.3f, mct %.3f\n",
          window * 100, error * 100, hase, MeanClosedGap(window, error, "lpt-mct"),
          MeanClosedGap(window, error, "mct"));
      EXPECT_GE(hase, 0.85);
    }
  }
}

// What residents of one device of the test's world do, each (model, sharing, types) a class of work
// and every type, whose devices are alike, a group: all sets of up to four on shares in quarters
// are tried.
class TestConfigurations final : public ConfigurationPricer {
 public:
  explicit TestConfigurations(const TestWorld& world) : world_(world) {
    for (size_t d = 0; d < world.devices.size(); ++d) {
      const auto same = [&](size_t g) { return world.devices[g].type == world.devices[d].type; };
      if (std::ranges::none_of(groups_, same)) {
        groups_.push_back(d);
        counts_.push_back(0);
      }
      ++counts_.back();
    }
    for (const TestJob& test : world.jobs) {
      if (test.rejected) continue;
      const QueuedJob& job = test.job;
      const auto same = [&](const Class& c) {
        return c.job->model == job.model && c.job->sharing == job.sharing &&
               c.job->device_types == job.device_types;
      };
      auto at = std::ranges::find_if(classes_, same);
      if (at == classes_.end()) at = classes_.insert(at, {&job, 0, 0});
      const int64_t inputs = job.inputs_left + test.done;
      // A gang's members take turns in nothing; a cut job loads at least once.
      at->batches += BatchesPerSlot(inputs, job.batch, job.gang) * job.gang * test.truth_factor;
      at->loads += job.gang * test.truth_factor;
    }
  }
  const std::vector<double>& counts() const { return counts_; }
  // Working and loading: a class of each.
  std::vector<double> Amounts() const {
    std::vector<double> amounts;
    for (const Class& c : classes_) amounts.insert(amounts.end(), {c.batches, c.loads});
    return amounts;
  }
  std::vector<Configuration> Alone() override {
    std::vector<Configuration> all;
    for (size_t d = 0; d < groups_.size(); ++d) {
      for (size_t k = 0; k < 2 * classes_.size(); ++k) {
        if (const double rate = Rate(d, k); rate > 0) all.push_back({d, {{k, rate}}});
      }
    }
    return all;
  }
  double MostEarned(size_t group, std::span<const double> prices, double worth,
                    std::vector<Configuration>& found) override {
    double most = 0;
    std::vector<std::pair<size_t, int>> set;
    for (size_t k = 0; k < prices.size(); ++k) {
      most = std::max(most, prices[k] * Rate(group, k));
    }
    if (world_.devices[groups_[group]].modes.empty()) return most;
    Extend(group, prices, worth, set, 4, most, found);
    return most;
  }

 private:
  struct Class {
    const QueuedJob* job;
    double batches, loads;
  };
  double Rate(size_t group, size_t k) const {
    const DeviceState& d = world_.devices[groups_[group]];
    const QueuedJob& job = *classes_[k / 2].job;
    if (!job.device_types.empty() &&
        std::ranges::find(job.device_types, d.type) == job.device_types.end()) {
      return 0;
    }
    const auto* e = world_.estimator.Find(job.model, d.type, job.batch);
    if (!e || e->memory() > d.memory_total) return 0;
    const double one = e->Job(1, false).mean_s, load = e->Job(1, true).mean_s - one;
    return 1 / std::max((k % 2 == 0 ? one : load) * d.speed_factor, 1e-9);
  }
  void Extend(size_t group, std::span<const double> prices, double worth,
              std::vector<std::pair<size_t, int>>& set, int quarters, double& most,
              std::vector<Configuration>& found) const {
    Evaluate(group, prices, worth, set, most, found);
    for (size_t k = set.empty() ? 0 : set.back().first; k < prices.size(); ++k) {
      if (classes_[k / 2].job->sharing == workload::Sharing::kNever || Rate(group, k) <= 0)
        continue;
      for (int q = 1; q <= std::min(quarters, 3); ++q) {
        set.emplace_back(k, q);
        Extend(group, prices, worth, set, quarters - q, most, found);
        set.pop_back();
      }
    }
  }
  void Evaluate(size_t group, std::span<const double> prices, double worth,
                const std::vector<std::pair<size_t, int>>& set, double& most,
                std::vector<Configuration>& found) const {
    const DeviceState& d = world_.devices[groups_[group]];
    std::vector<latency::Tenant> tenants;
    Bytes memory;
    for (const auto& [k, q] : set) {
      const QueuedJob& job = *classes_[k / 2].job;
      tenants.push_back({job.model, job.batch, MilliShare(250 * q)});
      memory += world_.estimator.Find(job.model, d.type, job.batch)->memory();
    }
    if (set.empty() || memory > d.memory_total) return;
    Configuration c{group, {}};
    double value = 0;
    for (size_t i = 0; i < set.size(); ++i) {
      std::vector<latency::Tenant> others = tenants;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const double rate =
          Rate(group, set[i].first) / world_.estimator.Slowdown(tenants[i], d.type, others, {});
      value += rate * prices[set[i].first];
      const auto at = std::ranges::find(c.rates, set[i].first, &std::pair<size_t, double>::first);
      if (at != c.rates.end()) {
        at->second += rate;
      } else {
        c.rates.emplace_back(set[i].first, rate);
      }
    }
    most = std::max(most, value);
    if (value > worth * (1 + 1e-9) && found.size() < 200) found.push_back(std::move(c));
  }

  const TestWorld& world_;
  std::vector<size_t> groups_;  // a device of each
  std::vector<double> counts_;
  std::vector<Class> classes_;
};

double ByConfigurations(const TestWorld& world) {
  TestConfigurations pricer(world);
  return BoundByConfigurations(pricer.Amounts(), pricer.counts(), pricer, 0.02, 40).makespan_s;
}

// Instances of every kind: releases, gangs, cut jobs, memory, types. HASE_BOUND_INSTANCES sets how
// many (the slow suite: 10,000).
TEST(EveryPolicy, NeverBeatsTheBound) {
  const char* wish = std::getenv("HASE_BOUND_INSTANCES");
  const uint64_t instances = wish ? std::strtoull(wish, nullptr, 10) : 500;
  double sum = 0, sum_rates = 0, n = 0;
  for (uint64_t seed = 1; seed <= instances; ++seed) {
    const auto rows = Policies();
    const PolicyRow& row = rows[seed % rows.size()];
    const bool shared = seed % 2 == 0;
    TestWorld world = RandomWorld(seed, shared);
    const bool halves = shared && row.name != "hase" && seed % 3 == 0;
    const auto outcome = world.Run(*Make(std::string(row.name) + (halves ? ":sharing=on" : "")));
    // In this world a pair on halves does at most 2 / (1 + contention) times one's work, company
    // of n at most n.
    const double bound = MakespanLowerBound(Truth(world, shared ? 4 : 1));
    ASSERT_GE(outcome.makespan_s, bound * (1 - 1e-6)) << row.name << ", seed " << seed;
    if (!shared || outcome.makespan_s <= 0) continue;
    const double configurations = ByConfigurations(world);
    ASSERT_GE(outcome.makespan_s, configurations * (1 - 1e-6)) << row.name << ", seed " << seed;
    ++n;
    sum_rates += bound / outcome.makespan_s;
    sum += std::max(bound, configurations) / outcome.makespan_s;
  }
  std::printf("shared: bound / makespan %.3f, with configurations %.3f\n", sum_rates / n, sum / n);
}

}  // namespace
}  // namespace hase::placement

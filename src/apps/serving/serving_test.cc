// The planner against the world: queueing, plans, refusals. These tests may see both rooms; the
// rooms do not see each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "apps/serving/arena.h"
#include "apps/serving/drift.h"
#include "placement/services/queueing.h"
#include "placement/services/service_bound.h"
#include "placement/services/service_policies.h"
#include "placement/services/sketch_estimator.h"

namespace hase::serving {
namespace {

using cluster::ShareMode;

class LinearTruth : public world::ServingTruth {
 public:
  LinearTruth(double a, double b) : a_(a), b_(b) {}
  double BatchSeconds(const world::Server&, int64_t items) const override {
    return a_ + b_ * static_cast<double>(items);
  }
  void Ratios(std::span<const world::Server* const>, std::span<double> ratios) const override {
    for (double& r : ratios) r = 1;
  }
  double Noise(Rng&) const override { return 1; }
  double LoadSeconds(const world::Server&) const override { return 0; }
  Bytes Memory(const world::Server&) const override { return Bytes(0); }

 private:
  double a_, b_;
};

// The planner's response percentiles are the world's, over load, batch and cost of a batch.
TEST(Queueing, MatchesTheRequestWorld) {
  double worst = 0;
  for (const int64_t batch : {1, 4, 16})
    for (const double fixed : {0.1, 0.5, 0.9})
      for (const double rho : {0.2, 0.5, 0.8})
        for (const double percentile : {0.5, 0.99}) {
          const double b = static_cast<double>(batch), run = 0.020;
          const LinearTruth truth(run * fixed, run * (1 - fixed) / b);
          const placement::BatchServer server{run, fixed + (1 - fixed) / b, batch};
          const double rate = rho * b / run, seconds = 200000 / rate;
          const workload::RatePoint point{Nanos(0), rate};
          const std::vector<world::ServedService> services{
              {world::Arrivals(world::ArrivalPattern::kPoisson, {&point, 1}, seconds, Rng(9)), 1e9,
               percentile}};
          world::ServingInstance instance;
          instance.server.batch = batch;
          const auto out = world::ServeRequests(services, std::vector{instance}, truth,
                                                {seconds, seconds / 20, 1});
          const double planned =
              1e3 * run * placement::BatchServerResponse(server, rho, percentile);
          const double error = planned / out.services[0].at_percentile_ms - 1;
          worst = std::max(worst, std::abs(error));
          EXPECT_LT(std::abs(error), 0.12)
              << "batch " << batch << " fixed " << fixed << " rho " << rho << " p" << percentile
              << ": " << planned << " against " << out.services[0].at_percentile_ms;
        }
  std::printf("  worst error of a percentile: %.1f %%\n", 100 * worst);
}

// What is interpolated from the table is the law computed there.
TEST(Queueing, TheTableIsTheLawBetweenItsPoints) {
  double worst = 0;
  for (const int64_t batch : {4, 16, 32})
    for (const double first : {0.07, 0.2, 0.4, 0.8})
      for (const double bend : {0.6, 1.0})
        for (const double rho : {0.035, 0.12, 0.35, 0.78}) {
          if (first * static_cast<double>(batch) < 1) continue;  // no such model
          const placement::BatchServer server{0.02, first, batch, bend};
          const double exact = placement::BatchServerResponse(server, rho, 0.99);
          const double table = placement::BatchQueue(0.99).Response(server, rho);
          worst = std::max(worst, std::abs(table / exact - 1));
          // Worst where the load is next to nothing and the batch large, on the safe side.
          EXPECT_GT(table / exact, 0.9);
          EXPECT_LT(table / exact, 1.25)
              << "batch " << batch << " first " << first << " bend " << bend << " rho " << rho;
        }
  std::printf("  worst error of the table: %.1f %%\n", 100 * worst);
}

// Replicas that are dealt requests in turn: the foretold percentile is the simulated one.
TEST(Queueing, ReplicasInTurnSeeEvenArrivals) {
  double worst = 0;
  for (const size_t replicas : {2, 4})
    for (const int64_t batch : {1, 8})
      for (const double rho : {0.3, 0.6, 0.8}) {
        const double b = static_cast<double>(batch), run = 0.020, fixed = 0.3;
        const LinearTruth truth(run * fixed, run * (1 - fixed) / b);
        const double rate = rho * b / run, seconds = 100000 / rate;
        const workload::RatePoint point{Nanos(0), rate * static_cast<double>(replicas)};
        const std::vector<world::ServedService> services{
            {world::Arrivals(world::ArrivalPattern::kPoisson, {&point, 1}, seconds, Rng(9)), 1e9,
             0.99}};
        std::vector<world::ServingInstance> instances(replicas);
        for (uint32_t i = 0; i < replicas; ++i) {
          instances[i].server.batch = batch;
          instances[i].server.device = DeviceId(i);
        }
        const auto out =
            world::ServeRequests(services, instances, truth, {seconds, seconds / 20, 1});
        placement::BatchServer server{run, batch == 1 ? 1 : fixed + (1 - fixed) / b, batch};
        server.evenness = 1.0 / static_cast<double>(replicas);
        const double planned = 1e3 * placement::BatchQueue(0.99).ResponseSeconds(server, rate);
        const double error = planned / out.services[0].at_percentile_ms - 1;
        worst = std::max(worst, std::abs(error));
        EXPECT_LT(std::abs(error), 0.2)
            << replicas << " replicas, batch " << batch << ", rho " << rho << ": " << planned
            << " against " << out.services[0].at_percentile_ms;
      }
  std::printf("  worst error with replicas: %.1f %%\n", 100 * worst);
}

// Cards of one made-up type, and services of sketched models.
ServingCase SmallCase(const latency::Estimator*& estimator, int devices,
                      const std::vector<std::pair<std::string, double>>& asked, double slo_ms) {
  static cluster::Cluster cluster;  // outlives the estimator that borrows its types
  static std::unique_ptr<placement::SketchEstimator> sketch;
  cluster = {};
  cluster::DeviceType type;
  type.name = type.spec.name = "card";
  type.spec.sm_count = 40;
  type.spec.compute_capability = 75;
  type.spec.memory = GiB(16);
  type.spec.bandwidth_gb_s = 320;
  type.spec.peak_tflops[0] = 8.1;
  cluster.types.push_back(type);
  for (int i = 0; i < devices; ++i) {
    cluster::Device device;
    device.id = DeviceId(static_cast<uint32_t>(i));
    device.name = "n/" + std::to_string(i);
    device.type = DeviceTypeId(0);
    device.modes = {ShareMode::kMps};
    device.price_per_hour = 1;
    cluster.devices.push_back(device);
  }
  ServingCase given;
  given.cluster = cluster;
  std::vector<std::string> names;
  for (const auto& [model, rate] : asked) {
    workload::Service service;
    service.name = service.model = model;
    service.rate = {{Nanos(0), rate}};
    service.slo_ms = slo_ms;
    service.max_batch = 16;
    given.services.push_back(service);
    given.models.push_back(ModelId(static_cast<uint32_t>(names.size())));
    names.push_back(model);
  }
  sketch = std::make_unique<placement::SketchEstimator>(names, cluster.types);
  given.estimator = estimator = sketch.get();
  return given;
}

TEST(Plans, EveryPolicyNeverOversellsAndServesAll) {
  const latency::Estimator* estimator = nullptr;
  const Arena arena(SmallCase(estimator, 3,
                              {{"resnet50", 20},
                               {"mobilenet_v2", 100},
                               {"resnet18", 50},
                               {"yolov5n", 20},
                               {"vgg16", 5}},
                              120),
                    {}, 1, true);
  const auto view = arena.View();
  for (const auto& row : placement::ServicePolicies()) {
    const auto plan = row.make(placement::ServiceObjective::kMaxThroughput)->Decide(view);
    EXPECT_TRUE(plan.rejected.empty()) << row.name;
    std::map<std::pair<uint32_t, int>, int64_t> slots;  // milli by (device, slot)
    std::map<uint32_t, int64_t> served;
    for (const auto& i : plan.instances) {
      if (i.mode == ShareMode::kMps) slots[{i.device.index(), i.slot}] = i.share.value();
      ++served[i.service.index()];
      EXPECT_GE(i.batch, 1) << row.name;
      EXPECT_LE(i.batch, 16) << row.name;
    }
    std::map<uint32_t, int64_t> sold;
    for (const auto& [key, milli] : slots) sold[key.first] += milli;
    for (const auto& [device, milli] : sold) EXPECT_LE(milli, 1000) << row.name;
    // Without MIG a segment of parvagpu is a whole card, and there are fewer cards than services.
    EXPECT_EQ(served.size(), row.name == "parvagpu" ? 0u : 5u) << row.name;
  }
}

TEST(Plans, InssKeepsTheObjectivesInTheWorld) {
  const latency::Estimator* estimator = nullptr;
  const Arena arena(
      SmallCase(estimator, 3,
                {{"resnet50", 20}, {"mobilenet_v2", 100}, {"resnet18", 50}, {"yolov5n", 20}}, 120),
      {}, 1, true);
  const auto view = arena.View();
  const auto plan =
      (*placement::MakeServicePolicy("inss", placement::ServiceObjective::kMinCost))->Decide(view);
  ASSERT_FALSE(plan.instances.empty());
  EXPECT_LT(arena.DevicesUsed(plan.instances), 3);  // they fit fewer
  EXPECT_LE(arena.Judge(plan.instances, {}, 5).late_fraction(), 0.01);
}

// A card faster than its type's first is no negative interference: its speed is in every term.
TEST(Plans, TermsOfARunAddUpOnEveryCard) {
  const latency::Estimator* estimator = nullptr;
  const Arena arena(
      SmallCase(estimator, 3, {{"resnet50", 20}, {"mobilenet_v2", 100}, {"resnet18", 50}}, 120), {},
      3, true);
  const auto view = arena.View();
  EXPECT_TRUE(std::any_of(view.devices.begin(), view.devices.end(),
                          [](const auto& d) { return d.speed_factor < 1; }));
  const auto plan =
      (*placement::MakeServicePolicy("inss", placement::ServiceObjective::kMaxThroughput))
          ->Decide(view);
  ASSERT_FALSE(plan.instances.empty());
  for (size_t i = 0; i < plan.instances.size(); ++i) {
    const auto l = LatencyOf(view, arena.model(), plan.instances, i);
    EXPECT_GE(l.interference_ms, -1e-9);
    EXPECT_NEAR(l.compute_ms + l.dram_ms + l.launch_ms + l.interference_ms, l.run_ms,
                1e-6 * l.run_ms);
  }
}

TEST(Plans, ImpossibleServicesAreRefusedByName) {
  const latency::Estimator* estimator = nullptr;
  const Arena arena(SmallCase(estimator, 1, {{"vgg19", 1}, {"resnet18", 1}}, 8), {}, 1, true);
  const auto view = arena.View();
  const auto plan =
      (*placement::MakeServicePolicy("inss", placement::ServiceObjective::kMaxThroughput))
          ->Decide(view);
  ASSERT_EQ(plan.rejected.size(), 1u);
  EXPECT_EQ(plan.rejected[0].service.index(), 0u);
  EXPECT_NE(plan.rejected[0].nearest_feasible.find("slo_ms"), std::string::npos);
  EXPECT_FALSE(plan.instances.empty());  // the other is served
}

TEST(Drift, AdaptingKeepsWhatStandingStillLoses) {
  const latency::Estimator* estimator = nullptr;
  auto given = SmallCase(estimator, 4, {{"resnet50", 60}, {"mobilenet_v2", 100}}, 150);
  // The first grows eight-fold over ten minutes.
  given.services[0].rate.clear();
  for (int t = 0; t < 600; t += 10)
    given.services[0].rate.push_back({FromSeconds(t), 60 * std::pow(8.0, t / 600.0)});
  const Arena arena(given, {}, 1, true);
  const auto view = arena.View();
  const auto plan =
      (*placement::MakeServicePolicy("inss", placement::ServiceObjective::kMinCost))->Decide(view);
  ASSERT_FALSE(plan.instances.empty());
  double attainment[2], cost[2];
  for (const bool adapt : {false, true}) {
    DriftOptions options;
    options.duration_s = 600;
    options.adapt.level =
        adapt ? placement::AdaptLevel::kPlacement : placement::AdaptLevel::kNothing;
    const auto out = ServeDrift(arena, plan, options);
    attainment[adapt] = out.attainment();
    cost[adapt] = out.cost;
    std::printf("  %s: attainment %.2f %%, cost %.2f, %d starts\n", adapt ? "adapting" : "standing",
                100 * attainment[adapt], cost[adapt], out.starts);
  }
  EXPECT_LT(attainment[0], 0.96);
  EXPECT_GT(attainment[1], 0.985);
  EXPECT_GT(cost[1], cost[0]);
}

// The exact optimum leaves interference out and has one instance of a service per device (inss may
// have more, so it can pass it): compared where neighbours cost nothing, and where they cost what
// they cost by default.
TEST(Bounds, NoPlanPassesThemAndSmallOnesComeClose) {
  const std::string models[] = {"resnet50", "mobilenet_v2", "vgg16", "resnet18", "yolov5n"};
  double sum = 0, least = 1, beside = 0;
  constexpr int kInstances = 12;
  for (int seed = 1; seed <= kInstances; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    std::vector<std::pair<std::string, double>> asked;
    const int64_t services = rng.UniformInt(2, 4);
    for (int64_t s = 0; s < services; ++s)
      asked.emplace_back(models[static_cast<size_t>(s + rng.UniformInt(0, 1))],
                         std::exp(rng.Uniform(std::log(5.0), std::log(200.0))));
    const latency::Estimator* estimator = nullptr;
    const int devices = static_cast<int>(rng.UniformInt(2, 3));
    const ServingCase given = SmallCase(estimator, devices, asked, rng.Uniform(90, 200));
    const Arena arena(given, {}, 1, false);
    latency::ServiceModel alone(*estimator, given.cluster.types);
    alone.SetNeighbours(DeviceTypeId(0), {.burst = 0});
    auto view = arena.View();
    double unit = 0;
    for (const auto& [model, rate] : asked) unit += rate;
    const auto reached = [&](const latency::ServiceModel& model) {
      view.model = &model;
      const auto plan =
          placement::MakeServicePolicy("inss", placement::ServiceObjective::kMaxThroughput)
              .value()
              ->Decide(view);
      double rate = 0;
      for (const auto& i : plan.instances) rate += i.rate_rps;
      return rate / unit;
    };
    const double with = reached(arena.model()), without = reached(alone);
    const placement::CapacityTable table(view, alone, placement::InssOptions().margin);
    const auto bound = placement::BoundOnFactor(table), exact = placement::ExactFactor(table);
    ASSERT_TRUE(bound && exact);
    EXPECT_LE(*exact, *bound * 1.0001);
    // The same at rates far below the solver's tolerances.
    std::vector<placement::ServiceDemand> demands(view.services.begin(), view.services.end());
    for (auto& demand : demands) demand.rate_rps *= 1e-12;
    auto tiny = view;
    tiny.services = demands;
    const placement::CapacityTable same(tiny, alone, placement::InssOptions().margin);
    EXPECT_NEAR(*placement::BoundOnFactor(same) * 1e-12 / *bound, 1, 1e-6);
    EXPECT_LE(without, *bound * 1.0001);
    std::printf("  %d services, %d devices: of the optimum %.3f, with interference %.3f\n",
                static_cast<int>(services), devices, without / *exact, with / *exact);
    sum += without / *exact;
    beside += with / *exact;
    least = std::min(least, without / *exact);
  }
  std::printf("  mean %.3f, least %.3f; with interference %.3f\n", sum / kInstances, least,
              beside / kInstances);
  EXPECT_GE(sum / kInstances, 0.95);
  EXPECT_GE(beside / kInstances, 0.95);
}

}  // namespace
}  // namespace hase::serving

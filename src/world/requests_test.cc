// The request-level world against results known from theory and worked by hand.
#include "world/requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "world/arrivals.h"
#include "world/lifetimes.h"

namespace hase::world {
namespace {

// a + b · items, and every busy neighbour costs `cost`.
class LinearTruth : public ServingTruth {
 public:
  LinearTruth(double a, double b, double cost = 0) : a_(a), b_(b), cost_(cost) {}
  double BatchSeconds(const Server&, int64_t items) const override {
    return a_ + b_ * static_cast<double>(items);
  }
  void Ratios(std::span<const Server* const> busy, std::span<double> ratios) const override {
    for (double& r : ratios) r = 1 + cost_ * static_cast<double>(busy.size() - 1);
  }
  double Noise(Rng&) const override { return 1; }
  double LoadSeconds(const Server&) const override { return 0; }
  Bytes Memory(const Server&) const override { return Bytes(0); }

 private:
  double a_, b_, cost_;
};

ServingInstance On(uint32_t service, uint32_t device, int64_t batch, double max_wait_s = 0) {
  ServingInstance i;
  i.service = ServiceId(service);
  i.server.device = DeviceId(device);
  i.server.batch = batch;
  i.server.mode = cluster::ShareMode::kMps;
  i.max_wait_s = max_wait_s;
  return i;
}

ServedService Poisson(double rps, double seconds, uint64_t seed) {
  const workload::RatePoint rate{Nanos(0), rps};
  return {Arrivals(ArrivalPattern::kPoisson, {&rate, 1}, seconds, Rng(seed)), 100, 0.99};
}

TEST(Requests, SingleServerMatchesMD1) {
  // M/D/1 at utilisation 0.8: mean wait = rho / (2 (1 - rho)) services.
  const double service = 0.010;
  const LinearTruth truth(0, service);
  const std::vector services{Poisson(80, 2000, 7)};
  const std::vector instances{On(0, 0, 1)};
  const auto out = ServeRequests(services, instances, truth, {2000, 10, 1});
  EXPECT_NEAR(out.services[0].mean_wait_ms, 1e3 * service * 0.8 / (2 * 0.2), 2.5);
  EXPECT_NEAR(out.services[0].mean_run_ms, 10, 1e-6);
}

TEST(Requests, BatchesFillUpToTheTimeout) {
  const LinearTruth truth(0.001, 0);
  ServedService service{{0.000, 0.001, 0.002, 0.100, 0.101}, 100, 0.99};
  const std::vector instances{On(0, 0, 3, 0.010)};
  const auto out = ServeRequests(std::vector{service}, instances, truth, {1, 0, 1});
  // The first three start together at 2 ms; the last two when the older has waited 10 ms.
  EXPECT_NEAR(out.services[0].mean_wait_ms, (2 + 1 + 0 + 10 + 9) / 5.0, 1e-6);
  EXPECT_NEAR(out.services[0].mean_batch, (3 * 3 + 2 * 2) / 5.0, 1e-9);
}

TEST(Requests, SlowDownIsIntegratedOverTheOverlap) {
  // Two runs of 10 ms, the second 5 ms later, each 1.5 times slower while both run: the first has
  // 5 ms left at 5 ms, which take 7.5 ms; the second then has 5 ms left, alone.
  const LinearTruth truth(0.010, 0, 0.5);
  const std::vector<ServedService> services{{{0.0}, 100, 0.99}, {{0.005}, 100, 0.99}};
  const std::vector instances{On(0, 0, 1), On(1, 0, 1)};
  const auto out = ServeRequests(services, instances, truth, {1, 0, 1});
  EXPECT_NEAR(out.services[0].p50_ms, 12.5, 1e-4);
  EXPECT_NEAR(out.services[1].p50_ms, 12.5, 1e-4);
}

TEST(Requests, WeightsDivideTheRequests) {
  const LinearTruth truth(0.0001, 0);
  const std::vector services{Poisson(1000, 10, 3)};
  auto instances = std::vector{On(0, 0, 1), On(0, 1, 1), On(0, 2, 1)};
  instances[0].weight = 3;
  instances[2].ready_s = 20;  // never ready
  const auto out = ServeRequests(services, instances, truth, {10, 0, 1});
  EXPECT_EQ(out.requests, static_cast<int64_t>(services[0].arrivals_s.size()));
  EXPECT_EQ(out.late, 0);
}

TEST(Requests, WithoutAnInstanceEveryRequestIsLate) {
  const LinearTruth truth(0.001, 0);
  const std::vector services{Poisson(100, 10, 3)};
  const auto out = ServeRequests(services, {}, truth, {10, 0, 1});
  EXPECT_EQ(out.late, out.requests);
  EXPECT_FALSE(out.every_objective_kept(services));
}

// One second to load, 400 MiB a process, 1 GiB a device.
class LoadingTruth : public LinearTruth {
 public:
  LoadingTruth() : LinearTruth(0.001, 0) {}
  double LoadSeconds(const Server&) const override { return 1; }
  Bytes Memory(const Server&) const override { return MiB(400); }
  Bytes DeviceMemory(DeviceId) const override { return GiB(1); }
};

TEST(Lifetimes, AReplacementTakesOverWhenItHasLoaded) {
  auto instances = std::vector{On(0, 0, 1), On(0, 0, 1)};
  instances[1].ready_s = 5;
  instances[1].cold = true;
  instances[1].replaces = 0;
  const auto lives = LifetimesOf(instances, LoadingTruth());
  EXPECT_DOUBLE_EQ(lives.of[1].from_s, 6);
  EXPECT_DOUBLE_EQ(lives.of[0].to_s, 6);
  EXPECT_EQ(lives.gaps, 0);
  EXPECT_DOUBLE_EQ(lives.loading_s, 1);
}

TEST(Lifetimes, WithoutRoomForTheShadowThereIsAGap) {
  // A third process fills the device, so old and new do not fit together.
  auto instances = std::vector{On(0, 0, 1), On(1, 0, 1), On(0, 0, 1)};
  instances[2].ready_s = 5;
  instances[2].cold = true;
  instances[2].replaces = 0;
  const auto lives = LifetimesOf(instances, LoadingTruth());
  EXPECT_EQ(lives.gaps, 1);
  EXPECT_DOUBLE_EQ(lives.of[0].to_s, 5);
  EXPECT_DOUBLE_EQ(lives.of[2].from_s, 6);
  // Requests of the gap are late: nobody serves them.
  std::vector<double> arrivals;
  for (int i = 0; i < 100; ++i) arrivals.push_back(0.1 * i);
  const std::vector<ServedService> services{{arrivals, 100, 0.99}, {{}, 100, 0.99}};
  const auto out = ServeRequests(services, instances, LoadingTruth(), {10, 0, 1});
  EXPECT_EQ(out.late, 10);
}

TEST(Lifetimes, WhoFindsNoMemoryWaits) {
  auto instances = std::vector{On(0, 0, 1), On(0, 0, 1), On(1, 0, 1)};
  instances[0].closed_s = 7;
  instances[2].ready_s = 5;
  const auto lives = LifetimesOf(instances, LoadingTruth());
  EXPECT_EQ(lives.delayed_starts, 1);
  EXPECT_DOUBLE_EQ(lives.of[2].start_s, 7);
}

TEST(Requests, SettingsChangeTheBatch) {
  const LinearTruth truth(0.001, 0);
  std::vector<double> arrivals;
  for (int i = 0; i < 40; ++i) arrivals.push_back(i < 20 ? 0.0 : 5.0);
  auto instances = std::vector{On(0, 0, 10)};
  instances[0].later = {{1.0, 2, 1.0}};
  const auto out = ServeRequests(std::vector<ServedService>{{arrivals, 100, 0.99}}, instances,
                                 truth, {10, 0, 1});
  EXPECT_NEAR(out.services[0].mean_batch, (20 * 10 + 20 * 2) / 40.0, 1e-9);
}

TEST(Requests, SameSeedSameOutcome) {
  const LinearTruth truth(0.002, 0.001, 0.1);
  const std::vector services{Poisson(300, 20, 3), Poisson(200, 20, 4)};
  const std::vector instances{On(0, 0, 8), On(1, 0, 8)};
  const auto a = ServeRequests(services, instances, truth, {20, 1, 1});
  const auto b = ServeRequests(services, instances, truth, {20, 1, 1});
  EXPECT_EQ(a.services[0].p99_ms, b.services[0].p99_ms);
  EXPECT_EQ(a.late, b.late);
}

TEST(Arrivals, KeepTheMeanRate) {
  const std::vector<workload::RatePoint> rate{{Nanos(0), 200}};
  for (const auto pattern :
       {ArrivalPattern::kPoisson, ArrivalPattern::kBursty, ArrivalPattern::kDiurnal}) {
    const auto times = Arrivals(pattern, rate, 2000, Rng(5));
    EXPECT_NEAR(static_cast<double>(times.size()) / 2000, 200, 8) << static_cast<int>(pattern);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  }
  const std::vector<double> trace{0, 0.1, 0.2, 5, 5.1, 9};
  const auto times = Arrivals(ArrivalPattern::kTrace, rate, 500, Rng(5), trace);
  EXPECT_NEAR(static_cast<double>(times.size()) / 500, 200, 2);
}

TEST(Arrivals, FollowAStep) {
  const std::vector<workload::RatePoint> rate{{Nanos(0), 10}, {FromSeconds(100), 100}};
  const auto times = Arrivals(ArrivalPattern::kPoisson, rate, 200, Rng(5));
  const auto late = std::count_if(times.begin(), times.end(), [](double t) { return t >= 100; });
  EXPECT_NEAR(static_cast<double>(late), 10000, 400);
  EXPECT_NEAR(static_cast<double>(times.size()) - static_cast<double>(late), 1000, 130);
}

// A device of one type, and a model of known parts.
cluster::Cluster OneDevice() {
  cluster::Cluster c;
  c.types.push_back({});
  c.devices.push_back({});
  c.devices[0].id = DeviceId(0);
  c.devices[0].type = DeviceTypeId(0);
  return c;
}
BatchWork Work(ModelId, DeviceTypeId, int64_t batch) {
  return {0.004 + 0.001 * static_cast<double>(batch), 0.5, 0.4, 0.1, 1.0, 2.0, MiB(500)};
}
Server Share(int milli, cluster::ShareMode mode = cluster::ShareMode::kMps, int slot = 0) {
  Server s;
  s.share = MilliShare(milli);
  s.mode = mode;
  s.batch = 8;
  s.slot = slot;
  return s;
}

TEST(LawTruth, SharesOnlySlowDown) {
  const auto cluster = OneDevice();
  ServingLawParameters p;
  p.model_sigma = p.card_sigma = p.part_sigma = 0;
  const LawTruth truth(cluster, Work, p, 1);
  EXPECT_NEAR(truth.BatchSeconds(Share(1000, cluster::ShareMode::kExclusive), 8), 0.012, 1e-9);
  double last = 0;
  for (int milli = 1000; milli >= 50; milli -= 50) {
    const double t = truth.BatchSeconds(Share(milli), 8);
    EXPECT_GE(t, last - 1e-12);
    last = t;
  }
  EXPECT_GT(last, 0.060);
}

TEST(LawTruth, NeighboursCostAndMigIsolates) {
  const auto cluster = OneDevice();
  const LawTruth truth(cluster, Work, {}, 1);
  for (const auto mode : {cluster::ShareMode::kMps, cluster::ShareMode::kMig}) {
    const auto a = Share(429, mode, 0), b = Share(429, mode, 1);
    const std::vector<const Server*> both{&a, &b};
    std::vector<double> ratios(2);
    truth.Ratios(both, ratios);
    if (mode == cluster::ShareMode::kMig)
      EXPECT_NEAR(ratios[0], 1, 0.03);  // host only
    else
      EXPECT_GT(ratios[0], 1.05);
  }
}

TEST(LawTruth, TimeSlicesDivideTheDevice) {
  const auto cluster = OneDevice();
  const LawTruth truth(cluster, Work, {}, 1);
  const auto a = Share(1000, cluster::ShareMode::kTimeSlice, 0),
             b = Share(1000, cluster::ShareMode::kTimeSlice, 1);
  const std::vector<const Server*> both{&a, &b};
  std::vector<double> ratios(2);
  truth.Ratios(both, ratios);
  EXPECT_GT(ratios[0], 2);
  EXPECT_LT(ratios[0], 2.4);
}

}  // namespace
}  // namespace hase::world

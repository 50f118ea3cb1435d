// Each rival policy against a plan worked by hand from its paper's rules, on models whose capacity
// is simple: time (a + c · batch) / share, no bandwidth, so that interference is nil. Rates are
// chosen between the capacities of two share steps, so which step serves which service is known
// without the planner.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "placement/services/service_policies.h"

namespace hase::placement {
namespace {

using cluster::ShareMode;

class ToyEstimator : public latency::Estimator {
 public:
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override {
    auto& e = known_[{model.index(), type.index(), batch}];
    // A model of a greater id is slower; type 1 is half as fast as type 0.
    e.latency_s = (1 + model.index()) * 1e-3 * (1 + 0.5 * static_cast<double>(batch)) *
                  (type.index() == 1 ? 2 : 1);
    e.compute_part = 1;
    e.sm_demand = 1;
    e.shared_sigma = 0.02;
    e.memory_run = e.memory_load = MiB(500);
    return &e;
  }
  std::string WhyNot(ModelId, DeviceTypeId, int64_t) const override { return ""; }
  double Slowdown(const latency::Tenant&, DeviceTypeId, std::span<const latency::Tenant>,
                  const latency::ForeignLoad&) const override {
    return 1;
  }

 private:
  mutable std::map<std::tuple<uint32_t, uint32_t, int64_t>, latency::Estimate> known_;
};

// Devices of type 0 (and 1 where asked), and services whose rates are set afterwards.
struct Toy {
  Toy(size_t fast, size_t slow, ShareMode mode, size_t services, double slo_ms = 100) {
    types.resize(2);
    for (auto& t : types) {
      t.spec.sm_count = 100;
      t.spec.memory = GiB(16);
    }
    modes = {mode};
    for (size_t d = 0; d < fast + slow; ++d) {
      DeviceState s;
      s.id = DeviceId(static_cast<uint32_t>(d));
      s.type = DeviceTypeId(d < fast ? 0 : 1);
      s.memory_total = GiB(16);
      s.modes = modes;
      devices.push_back(s);
      prices.push_back(d < fast ? 3.0 : 1.0);
    }
    for (size_t i = 0; i < services; ++i)
      demands.push_back({ServiceId(static_cast<uint32_t>(i)), ModelId(static_cast<uint32_t>(i)),
                         1.0, slo_ms, 0.99, 8});
    model = std::make_unique<latency::ServiceModel>(estimator, types);
    // No interference: what is tested is the rule, not the law.
    for (uint32_t t = 0; t < 2; ++t) model->SetNeighbours(DeviceTypeId(t), {0, 0, 0, 1, 0, 0});
  }
  ServiceView View() const {
    ServiceView view;
    view.services = demands;
    view.devices = devices;
    view.types = types;
    view.price_per_hour = prices;
    view.estimator = &estimator;
    view.model = model.get();
    return view;
  }
  // A rate that a share of `milli` serves and the step below does not.
  double Needs(size_t service, int milli, uint32_t type = 0) const {
    const auto view = View();
    const CapacityTable table(view, *model);
    double below = 0, here = 0;
    for (const auto& step : table.Of(service, DeviceTypeId(type), modes[0]).steps) {
      if (step.grant.share.value() < milli) below = step.rate_rps;
      if (step.grant.share.value() == milli) here = step.rate_rps;
    }
    EXPECT_GT(here, below);
    return 0.3 * below + 0.7 * here;
  }
  ServicePlan Plan(const char* policy, ServiceObjective objective) const {
    return (*MakeServicePolicy(policy, objective))->Decide(View());
  }

  ToyEstimator estimator;
  std::vector<cluster::DeviceType> types;
  std::vector<ShareMode> modes;
  std::vector<DeviceState> devices;
  std::vector<double> prices;
  std::vector<ServiceDemand> demands;
  std::unique_ptr<latency::ServiceModel> model;
};

// (device, milli) of a service's only instance.
std::pair<uint32_t, int64_t> At(const ServicePlan& plan, uint32_t service) {
  for (const auto& i : plan.instances)
    if (i.service.index() == service) return {i.device.index(), i.share.value()};
  return {99, 0};
}

TEST(Dedicated, OneDeviceEachTheRestTakeTurnsReplicasOnSpares) {
  Toy toy(2, 1, ShareMode::kMps, 2);
  // Two services on three devices: heaviest first onto the fastest; the third device goes to the
  // one with less capacity per request.
  toy.demands[0].rate_rps = 10;
  toy.demands[1].rate_rps = 100;
  const auto plan = toy.Plan("dedicated", ServiceObjective::kMaxThroughput);
  ASSERT_EQ(plan.instances.size(), 3u);
  int of_second = 0;
  for (const auto& i : plan.instances) {
    EXPECT_EQ(i.mode, ShareMode::kExclusive);
    of_second += i.service.index() == 1;
  }
  EXPECT_EQ(of_second, 2);

  Toy crowded(1, 0, ShareMode::kMps, 2);
  for (const auto& i : crowded.Plan("dedicated", ServiceObjective::kMaxThroughput).instances)
    EXPECT_EQ(i.mode, ShareMode::kTimeSlice);
}

TEST(EqualShare, DealsAndDividesEqually) {
  Toy toy(2, 0, ShareMode::kMps, 5);
  const auto plan = toy.Plan("equal-share", ServiceObjective::kMaxThroughput);
  ASSERT_EQ(plan.instances.size(), 5u);
  std::map<uint32_t, std::vector<int64_t>> shares;
  for (const auto& i : plan.instances) shares[i.device.index()].push_back(i.share.value());
  // Three and two services: the largest steps that are no more than a third and a half.
  for (const auto& [device, list] : shares)
    for (const int64_t milli : list) EXPECT_EQ(milli, list.size() == 3 ? 325 : 500);
}

TEST(Gpulet, SplitsADeviceForTheIdealSizeAndFillsTheRestByBestFit) {
  // An objective so tight that half the share serves much less than half the rate: no knee below
  // what a rate needs. 60 % and 40 % are one device split once; 80 % needs another.
  Toy toy(2, 0, ShareMode::kMps, 3, 12);
  for (auto& d : toy.demands) d.model = ModelId(0);
  toy.demands[0].rate_rps = toy.Needs(0, 600);
  toy.demands[1].rate_rps = toy.Needs(1, 400);
  toy.demands[2].rate_rps = toy.Needs(2, 800);
  const auto plan = toy.Plan("gpulet", ServiceObjective::kGivenRates);
  ASSERT_EQ(plan.instances.size(), 3u);
  EXPECT_EQ(At(plan, 0).second, 600);
  EXPECT_EQ(At(plan, 1).second, 400);
  EXPECT_EQ(At(plan, 2).second, 800);
  EXPECT_EQ(At(plan, 0).first, At(plan, 1).first);
  EXPECT_NE(At(plan, 0).first, At(plan, 2).first);
}

TEST(Gpulet, NeverMoreThanTwoPartsAndSmallOnesShareThemInTime) {
  Toy toy(1, 0, ShareMode::kMps, 4);
  for (size_t s = 0; s < 4; ++s) toy.demands[s].rate_rps = 0.3 * toy.Needs(s, 200);
  const auto plan = toy.Plan("gpulet", ServiceObjective::kGivenRates);
  ASSERT_EQ(plan.instances.size(), 4u);
  std::set<int> parts;
  for (const auto& i : plan.instances) parts.insert(i.slot);
  EXPECT_LE(parts.size(), 2u);
}

TEST(Igniter, PacksByShareLargestFirstOntoTheFewestOfOneType) {
  Toy toy(3, 0, ShareMode::kMps, 3);
  // 50 + 40 fill one device to 90 %; 20 does not fit there any more.
  toy.demands[0].rate_rps = toy.Needs(0, 500);
  toy.demands[1].rate_rps = toy.Needs(1, 400);
  toy.demands[2].rate_rps = toy.Needs(2, 200);
  const auto plan = toy.Plan("igniter", ServiceObjective::kMinCost);
  ASSERT_EQ(plan.instances.size(), 3u);
  EXPECT_EQ(At(plan, 0).second, 500);
  EXPECT_EQ(At(plan, 1).second, 400);
  EXPECT_EQ(At(plan, 2).second, 200);
  EXPECT_EQ(At(plan, 0).first, At(plan, 1).first);
  EXPECT_NE(At(plan, 0).first, At(plan, 2).first);
}

TEST(Igniter, TakesTheCheaperType) {
  Toy toy(1, 1, ShareMode::kMps, 1);
  // A third of the fast card (3/h) or two thirds of the slow one (1/h).
  toy.demands[0].rate_rps = toy.Needs(0, 300);
  const auto plan = toy.Plan("igniter", ServiceObjective::kMinCost);
  ASSERT_EQ(plan.instances.size(), 1u);
  EXPECT_EQ(plan.instances[0].device.index(), 1u);
}

TEST(ParvaGpu, SlicesByDensityNeverShared) {
  Toy toy(1, 0, ShareMode::kMig, 2);
  // One whole optimal segment each; memory eighths bind as well as slices.
  toy.demands[0].rate_rps = 1;
  toy.demands[1].rate_rps = 1;
  const auto plan = toy.Plan("parvagpu", ServiceObjective::kGivenRates);
  ASSERT_EQ(plan.instances.size(), 2u);
  std::set<int> slots;
  int sevenths = 0;
  for (const auto& i : plan.instances) {
    EXPECT_EQ(i.mode, ShareMode::kMig);
    EXPECT_TRUE(slots.insert(i.slot).second);
    sevenths += latency::MigSlices(i.share);
  }
  // What is left of a rate takes the smallest slice that serves it: one each.
  EXPECT_EQ(sevenths, 2);
}

TEST(ParvaGpu, AServiceAboveOneSegmentGetsSeveral) {
  Toy toy(2, 0, ShareMode::kMig, 1);
  const auto view = toy.View();
  const CapacityTable table(view, *toy.model);
  double whole = 0;
  for (int processes = 1; processes <= 3; ++processes)
    whole = std::max(
        whole,
        table.OfProcesses(0, DeviceTypeId(0), ShareMode::kMig, processes).steps.back().rate_rps);
  toy.demands[0].rate_rps = 1.4 * whole;
  const auto plan = toy.Plan("parvagpu", ServiceObjective::kGivenRates);
  double served = 0;
  std::map<uint32_t, int> slices;
  for (const auto& i : plan.instances) {
    served += i.rate_rps;
    slices[i.device.index()] += latency::MigSlices(i.share);
  }
  EXPECT_NEAR(served, toy.demands[0].rate_rps, 1e-6);
  for (const auto& [device, n] : slices) EXPECT_LE(n, 7);
}

}  // namespace
}  // namespace hase::placement

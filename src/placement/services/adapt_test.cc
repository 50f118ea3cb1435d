// The adapter's ladder: batches and routing first, then shares, then placement; hysteresis; few
// instances touched; a lost device's work goes elsewhere.
#include "placement/services/adapt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/rng.h"
#include "placement/services/inss.h"
#include "placement/services/rate_watch.h"
#include "placement/services/sketch_estimator.h"

namespace hase::placement {
namespace {

using Kind = AdaptAction::Kind;

class Adapting : public testing::Test {
 protected:
  Adapting() {
    types_.resize(1);
    types_[0].spec.sm_count = 40;
    types_[0].spec.bandwidth_gb_s = 320;
    types_[0].spec.peak_tflops[0] = 8.1;
    types_[0].spec.memory = GiB(16);
    for (uint32_t d = 0; d < 4; ++d) {
      DeviceState s;
      s.id = DeviceId(d);
      s.type = DeviceTypeId(0);
      s.memory_total = GiB(15);
      s.modes = {cluster::ShareMode::kMps};
      devices_.push_back(s);
      prices_.push_back(1);
    }
    const std::vector<std::string> names{"resnet50", "mobilenet_v2", "resnet18"};
    estimator_ = std::make_unique<SketchEstimator>(names, types_);
    const double rates[] = {30, 100, 60};
    for (uint32_t s = 0; s < 3; ++s)
      demands_.push_back({ServiceId(s), ModelId(s), rates[s], 120, 0.99, 16});
    model_ = std::make_unique<latency::ServiceModel>(*estimator_, types_);
    view_.services = demands_;
    view_.devices = devices_;
    view_.types = types_;
    view_.price_per_hour = prices_;
    view_.estimator = estimator_.get();
    view_.model = model_.get();
    table_ = std::make_unique<CapacityTable>(view_, *model_);
    InssOptions cheap;
    cheap.objective = ServiceObjective::kMinCost;
    plan_ = InssPolicy(cheap).Decide(view_);
  }
  // Nothing oversold, and every placed instance sustains what it was given.
  void Check(const ServiceAdapter& adapter) {
    const Ledger& ledger = adapter.ledger();
    for (uint32_t d = 0; d < ledger.size(); ++d) {
      EXPECT_GE(ledger.Free(DeviceId(d)), 0);
      for (const Placed& p : ledger.On(DeviceId(d)))
        EXPECT_GE(p.choice.rate_rps, p.rate_rps - 1e-6);
    }
  }
  static double Rate(const ServiceAdapter& adapter, uint32_t service) {
    double sum = 0;
    for (uint32_t d = 0; d < adapter.ledger().size(); ++d)
      for (const Placed& p : adapter.ledger().On(DeviceId(d)))
        if (p.service == service) sum += p.rate_rps;
    return sum;
  }

  std::vector<cluster::DeviceType> types_;
  std::vector<DeviceState> devices_;
  std::vector<double> prices_;
  std::vector<ServiceDemand> demands_;
  std::unique_ptr<SketchEstimator> estimator_;
  std::unique_ptr<latency::ServiceModel> model_;
  ServiceView view_;
  std::unique_ptr<CapacityTable> table_;
  ServicePlan plan_;
};

TEST_F(Adapting, BeginsWithThePlanAndDoesNothingWhileRatesHold) {
  ServiceAdapter adapter(*table_, {});
  const auto begun = adapter.Begin(plan_);
  EXPECT_GE(begun.size(), plan_.instances.size());
  for (const auto& a : begun) EXPECT_EQ(a.kind, Kind::kStart);
  // The plan carries the rates without headroom: the first look may deal some, the second nothing.
  for (uint32_t s = 0; s < 3; ++s) (void)adapter.OnRate(FromSeconds(1), s, demands_[s].rate_rps);
  for (uint32_t s = 0; s < 3; ++s)
    EXPECT_TRUE(adapter.OnRate(FromSeconds(2), s, demands_[s].rate_rps).empty());
  Check(adapter);
}

TEST_F(Adapting, GrowsByTheLeastChangeThatHelps) {
  ServiceAdapter adapter(*table_, {});
  (void)adapter.Begin(plan_);
  bool replaced = false, started = false;
  double rate = demands_[0].rate_rps;
  for (int k = 0; k < 40 && adapter.Unplaced(0) == 0; ++k) {
    rate *= 1.15;
    const auto actions = adapter.OnRate(FromSeconds(k + 1), 0, rate);
    for (const auto& a : actions) {
      replaced = replaced || a.kind == Kind::kReplace;
      // A new instance only once shares could not be grown.
      started = started || a.kind == Kind::kStart;
    }
    if (adapter.Unplaced(0) == 0) {
      EXPECT_GE(Rate(adapter, 0), rate);
    }
    Check(adapter);
  }
  EXPECT_TRUE(replaced);
  EXPECT_TRUE(started);
  EXPECT_GT(adapter.Unplaced(0), 0);  // four cards end somewhere
}

TEST_F(Adapting, LevelsDoNoMoreThanTheyMay) {
  for (const auto level : {AdaptLevel::kNothing, AdaptLevel::kBatches, AdaptLevel::kShares}) {
    AdaptOptions options;
    options.level = level;
    ServiceAdapter adapter(*table_, options);
    const size_t begun = adapter.Begin(plan_).size();
    size_t instances = 0;
    for (int k = 1; k < 10; ++k)
      for (const auto& a : adapter.OnRate(FromSeconds(k), 0, 30.0 * (1 + k))) {
        EXPECT_NE(level, AdaptLevel::kNothing);
        EXPECT_TRUE(level != AdaptLevel::kBatches || a.kind == Kind::kTune);
        EXPECT_NE(a.kind, Kind::kStart);
      }
    for (uint32_t d = 0; d < 4; ++d) instances += adapter.ledger().On(DeviceId(d)).size();
    EXPECT_EQ(instances, begun);
  }
}

TEST_F(Adapting, ShrinksOnlyAfterAWhileAndVacatesDevices) {
  ServiceAdapter adapter(*table_, {});
  (void)adapter.Begin(plan_);
  for (uint32_t s = 0; s < 3; ++s)
    (void)adapter.OnRate(FromSeconds(1), s, 9 * demands_[s].rate_rps);
  const double dear = adapter.CostPerHour();
  EXPECT_TRUE(adapter.OnRate(FromSeconds(10), 0, demands_[0].rate_rps).empty());
  EXPECT_TRUE(adapter.OnRate(FromSeconds(40), 0, demands_[0].rate_rps).empty());
  for (int t = 80; t < 2000; t += 10) {
    for (uint32_t s = 0; s < 3; ++s) (void)adapter.OnRate(FromSeconds(t), s, demands_[s].rate_rps);
    (void)adapter.OnTick(FromSeconds(t));
    Check(adapter);
  }
  EXPECT_LT(adapter.CostPerHour(), dear);
  for (uint32_t s = 0; s < 3; ++s) EXPECT_GE(Rate(adapter, s), demands_[s].rate_rps);
}

// Growing one service at a time leaves pieces; a plan made anew for the same rates costs less, and
// the adapter must come to within a device of it, keeping every rate on the way.
TEST_F(Adapting, MovesToAPlanMadeAnewWhereThatSaves) {
  const auto cost_after = [&](size_t small) {
    AdaptOptions options;
    options.small = small;
    ServiceAdapter adapter(*table_, options);
    (void)adapter.Begin(plan_);
    double paid = 0;
    for (int t = 1; t <= 600; ++t) {
      for (uint32_t s = 0; s < 3; ++s) {
        const double rate = demands_[s].rate_rps * (3 + 2.5 * std::sin(0.02 * t + 2 * s));
        (void)adapter.OnRate(FromSeconds(10 * t), s, rate);
        if (adapter.Unplaced(s) == 0) {
          EXPECT_GE(Rate(adapter, s), rate * 0.999);
        }
      }
      (void)adapter.OnTick(FromSeconds(10 * t));
      Check(adapter);
      paid += adapter.CostPerHour();
    }
    return paid / 600;
  };
  const double least_changes = cost_after(0), anew = cost_after(2000);
  EXPECT_LT(anew, 0.95 * least_changes);
}

TEST_F(Adapting, ActionsTellOneStoryOfEveryInstance) {
  ServiceAdapter adapter(*table_, {});
  std::map<uint32_t, Instance> running;
  const auto follow = [&](const std::vector<AdaptAction>& actions) {
    for (const auto& a : actions) {
      EXPECT_EQ(running.erase(a.replaces), a.kind == Kind::kReplace ? 1u : 0u);
      if (a.kind == Kind::kStop) {
        EXPECT_EQ(running.erase(a.id), 1u);
        continue;
      }
      EXPECT_EQ(running.contains(a.id), a.kind == Kind::kTune);
      EXPECT_TRUE(a.kind != Kind::kTune || running[a.id].share == a.instance.share);
      running[a.id] = a.instance;
    }
  };
  follow(adapter.Begin(plan_));
  Rng rng(11);
  for (int t = 1; t < 400; ++t) {
    const size_t s = static_cast<size_t>(rng.UniformInt(0, 2));
    follow(adapter.OnRate(FromSeconds(10 * t), s, demands_[s].rate_rps * rng.Uniform(0.3, 4)));
    follow(adapter.OnTick(FromSeconds(10 * t)));
    if (t == 200) follow(adapter.OnDevice(DeviceId(1), false));
    if (t == 300) follow(adapter.OnDevice(DeviceId(1), true));
    Check(adapter);
  }
  size_t placed = 0;
  for (uint32_t d = 0; d < 4; ++d)
    for (const Placed& p : adapter.ledger().On(DeviceId(d))) {
      ++placed;
      ASSERT_TRUE(running.contains(p.id));
      EXPECT_EQ(running[p.id].device.index(), d);
      EXPECT_EQ(running[p.id].share, p.share().grant.share);
      EXPECT_NEAR(running[p.id].rate_rps, p.rate_rps, 1e-3);
    }
  EXPECT_EQ(placed, running.size());
}

TEST_F(Adapting, ALostDeviceIsEmptied) {
  ServiceAdapter adapter(*table_, {});
  (void)adapter.Begin(plan_);
  uint32_t lost = 0;
  while (adapter.ledger().On(DeviceId(lost)).empty()) ++lost;
  (void)adapter.OnDevice(DeviceId(lost), false);
  EXPECT_TRUE(adapter.ledger().On(DeviceId(lost)).empty());
  for (uint32_t s = 0; s < 3; ++s) EXPECT_GE(Rate(adapter, s), demands_[s].rate_rps * 0.999);
  Check(adapter);
}

TEST(RateWatch, FollowsDriftAndJumpsOnABurst) {
  RateWatch watch(100);
  for (int k = 0; k < 50; ++k) (void)watch.Observe(200, 2);
  EXPECT_NEAR(watch.rate(), 100, 1);
  (void)watch.Observe(230, 2);  // chance
  EXPECT_LT(watch.rate(), 110);
  EXPECT_GE(watch.Observe(600, 2), 290);  // planned for at once
  (void)watch.Observe(600, 2);
  EXPECT_NEAR(watch.rate(), 300, 15);
}

}  // namespace
}  // namespace hase::placement

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/rng.h"
#include "world/law_world.h"
#include "world/residual_world.h"
#include "world/table_world.h"

namespace hase::world {
namespace {

using ::testing::HasSubstr;

LawParameters Shipped() {
  const auto path = std::filesystem::path(HASE_SOURCE_DIR) / "data/w3.yaml";
  auto p = ParseLawParameters(path.string(), *ReadFile(path));
  EXPECT_TRUE(p) << p.error().message;
  return *p;
}

cluster::Cluster Cards(int count) {
  cluster::Cluster c;
  c.types.resize(1);
  auto& t = c.types[0];
  t.name = t.spec.name = "A100-SXM4-40GB";
  t.spec.sm_count = 108;
  t.spec.bandwidth_gb_s = 1555;
  t.spec.l2 = MiB(40);
  t.spec.memory = GiB(40);
  t.spec.pcie_gb_s = 31.5;
  t.spec.peak_tflops = {19.5, 156, 312, 312, 624};
  for (int i = 0; i < count; ++i) {
    cluster::Device d;
    d.id = DeviceId(static_cast<uint32_t>(i));
    c.devices.push_back(d);
  }
  return c;
}

// A convolution-like kernel of `gflop` and `mib` of activations.
model::ModelKernels Model(double gflop, int64_t mib, int64_t outputs) {
  model::ModelKernels m;
  model::Kernel k;
  k.op_class = model::OpClass::kConv;
  k.output = {outputs};
  k.flops = static_cast<int64_t>(gflop * 1e9);
  k.bytes_activations = mib << 20;
  k.bytes_written = mib << 20;
  m.kernels.assign(20, k);
  m.memory.weights = MiB(100);
  return m;
}

TEST(ShareMaxMin, ConservesCapacityAndSlowsNobodyBelowTheWhole) {
  const LawParameters p = Shipped();
  Rng rng(5);
  for (int round = 0; round < 5000; ++round) {
    const auto n = static_cast<size_t>(rng.UniformInt(1, 6));
    std::vector<Demand> demands(n);
    std::vector<double> caps(n), rates(n, -1);
    for (size_t i = 0; i < n; ++i) {
      demands[i] = {rng.Uniform(), rng.Uniform(), rng.Uniform(), rng.Uniform()};
      caps[i] = rng.Uniform(0.05, 1);
    }
    ShareMaxMin(demands, caps, p, rates);
    double sm = 0, dram = 0, l2 = 0;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_GT(rates[i], 0);
      ASSERT_LE(rates[i], caps[i] + 1e-9);
      sm += rates[i] * demands[i].sm;
      dram += rates[i] * demands[i].dram;
      l2 += rates[i] * demands[i].l2;
    }
    // Rates are never below a thousandth, so that much may be over.
    ASSERT_LE(sm, 1 + 1e-3 * 6);
    ASSERT_LE(dram, 1 + 1e-3 * 6);
    ASSERT_LE(l2, 1 + 1e-3 * 6);
  }
}

TEST(ShareMaxMin, ANeighbourNeverSpeedsUpALoneTenantAndMoreShareNeverSlows) {
  const LawParameters p = Shipped();
  Rng rng(6);
  for (int round = 0; round < 5000; ++round) {
    const Demand a{rng.Uniform(), rng.Uniform(), rng.Uniform(), rng.Uniform()};
    const Demand b{rng.Uniform(), rng.Uniform(), rng.Uniform(), rng.Uniform()};
    const double cap = rng.Uniform(0.1, 1);
    double alone = 0, less = 0;
    ShareMaxMin(std::vector{a}, std::vector{cap}, p, std::span(&alone, 1));
    ShareMaxMin(std::vector{a}, std::vector{cap / 2}, p, std::span(&less, 1));
    std::vector<double> both(2);
    ShareMaxMin(std::vector{a, b}, std::vector{cap, 1.0}, p, both);
    ASSERT_LE(both[0], alone + 1e-9);
    ASSERT_LE(less, alone + 1e-9);
  }
}

TEST(LawWorld, MoreWorkTakesLongerAndCardsDiffer) {
  const auto cluster = Cards(50);
  const auto small = Model(1, 4, 1 << 20), large = Model(8, 4, 1 << 20);
  const auto kernels = [&](ModelId m, model::Runtime, int64_t) {
    return m.index() == 0 ? &small : m.index() == 1 ? &large : nullptr;
  };
  const LawWorld world(cluster, kernels, Shipped(), 3);
  const auto a = world.Alone(ModelId(0), DeviceId(0), 1),
             b = world.Alone(ModelId(1), DeviceId(0), 1);
  ASSERT_TRUE(a && b);
  EXPECT_GT(b->batch_s, 2 * a->batch_s);
  EXPECT_FALSE(world.Alone(ModelId(2), DeviceId(0), 1));
  // No card is further than the bound from its type, and they are not all alike.
  double least = 10, most = 0;
  for (uint32_t d = 0; d < 50; ++d) {
    least = std::min(least, world.CardFactor(DeviceId(d)));
    most = std::max(most, world.CardFactor(DeviceId(d)));
  }
  EXPECT_GE(least, std::exp(-0.06) - 1e-9);
  EXPECT_LE(most, std::exp(0.06) + 1e-9);
  EXPECT_GT(most - least, 0.03);
  // 20 kernels of 8 GFLOP at no more than the peak.
  EXPECT_GT(b->batch_s, 20 * 8e9 / 19.5e12);
}

TEST(LawWorld, CardsDrawnByNameDoNotDependOnTheirNeighbours) {
  auto cluster = Cards(3);
  for (auto& d : cluster.devices) d.name = "card" + std::to_string(d.id.index());
  const auto kernels = [](ModelId, model::Runtime, int64_t) -> const model::ModelKernels* {
    return nullptr;
  };
  const LawWorld all(cluster, kernels, Shipped(), 3, CardDraws::kByName);
  auto fewer = cluster;
  fewer.devices.erase(fewer.devices.begin());
  const LawWorld some(fewer, kernels, Shipped(), 3, CardDraws::kByName);
  EXPECT_EQ(some.CardFactor(DeviceId(0)), all.CardFactor(DeviceId(1)));
  EXPECT_EQ(some.CardFactor(DeviceId(1)), all.CardFactor(DeviceId(2)));
  EXPECT_NE(some.CardFactor(DeviceId(0)), some.CardFactor(DeviceId(1)));
}

TEST(LawWorld, SlowdownsAreAtLeastOneAndSharingPaysForSmallKernels) {
  const auto cluster = Cards(1);
  const auto tiny = Model(0.05, 1, 30000), full = Model(40, 8, 1 << 24);
  const auto kernels = [&](ModelId m, model::Runtime, int64_t) {
    return m.index() == 0 ? &tiny : &full;
  };
  const LawWorld world(cluster, kernels, Shipped(), 3);
  const auto sum = [&](uint32_t m, uint32_t n) {
    const std::vector<Occupant> two = {{ModelId(m), 1, MilliShare(500), cluster::ShareMode::kMps},
                                       {ModelId(n), 1, MilliShare(500), cluster::ShareMode::kMps}};
    std::vector<double> f(2);
    world.Slowdowns(DeviceId(0), two, f);
    EXPECT_GE(f[0], 1);
    EXPECT_GE(f[1], 1);
    return 1 / f[0] + 1 / f[1];
  };
  EXPECT_GT(sum(0, 0), 1.5);   // neither fills the card
  EXPECT_LT(sum(1, 1), 1.05);  // both do
}

TEST(LawWorld, TimeSlicingTakesTurns) {
  const auto cluster = Cards(1);
  const auto m = Model(1, 4, 1 << 20);
  const LawWorld world(cluster, [&](ModelId, model::Runtime, int64_t) { return &m; }, Shipped(), 3);
  const std::vector<Occupant> two(2,
                                  {ModelId(0), 1, MilliShare(500), cluster::ShareMode::kTimeSlice});
  std::vector<double> f(2);
  world.Slowdowns(DeviceId(0), two, f);
  EXPECT_GT(f[0], 2);
  EXPECT_LT(f[0], 2.2);
}

TEST(LawParameters, EveryFigureMustBeThere) {
  const auto path = std::filesystem::path(HASE_SOURCE_DIR) / "data/w3.yaml";
  std::string text = *ReadFile(path);
  EXPECT_THAT(ParseLawParameters("w3.yaml", text + "unheard_of: 1\n").error().message,
              HasSubstr("unknown key 'unheard_of'"));
  text.erase(text.find("l2_hit: 0.55"), 12);
  EXPECT_THAT(ParseLawParameters("w3.yaml", text).error().message,
              HasSubstr("key 'l2_hit' is missing"));
}

constexpr const char* kResiduals =
    "dataset,device,model,op_class,log_error\n"
    "neusight,T4,a,conv,0.1\nneusight,T4,a,conv,0.3\nneusight,V100,b,gemm,-0.2\n"
    "local,cpu,a,memory,0.05\n";

TEST(ResidualWorld, DrawsWholeBlocks) {
  auto blocks = ParseResiduals("r.csv", kResiduals);
  ASSERT_TRUE(blocks) << blocks.error().message;
  ASSERT_EQ(blocks->size(), 3u);
  EXPECT_NEAR((*blocks)[0].bias, 0.2, 1e-12);
  EXPECT_NEAR((*blocks)[0].sigma, 0.1 / std::sqrt(2), 1e-12);
  EXPECT_TRUE((*blocks)[2].memory);
  const auto cluster = Cards(2);
  const auto solo = [](ModelId, DeviceTypeId, int64_t) {
    return std::optional(Solo{1, 2, GiB(1)});
  };
  const auto law = [](DeviceTypeId, const Occupant&, std::span<const Occupant> others) {
    return 1.0 + 0.5 * static_cast<double>(others.size());
  };
  const ResidualWorld world(cluster, solo, law, *blocks, 9);
  // One bias per (model, type): batches and cards share it; models differ.
  std::vector<double> seen;
  for (uint32_t m = 0; m < 40; ++m) {
    const auto one = world.Alone(ModelId(m), DeviceId(0), 1);
    EXPECT_EQ(one->batch_s, world.Alone(ModelId(m), DeviceId(1), 64)->batch_s);
    const double log_error = std::log(one->batch_s);
    EXPECT_TRUE(std::abs(log_error + 0.2) < 1e-9 || std::abs(log_error - 0.2) < 0.4) << log_error;
    seen.push_back(log_error);
    EXPECT_EQ(one->memory, Scale(GiB(1), std::exp(0.05)));
  }
  EXPECT_NE(*std::min_element(seen.begin(), seen.end()),
            *std::max_element(seen.begin(), seen.end()));
  // Asking in another order changes nothing.
  const ResidualWorld again(cluster, solo, law, *blocks, 9);
  EXPECT_EQ(again.Alone(ModelId(7), DeviceId(0), 1)->batch_s, std::exp(seen[7]));
}

TEST(ResidualWorld, BadFilesNameTheirPlace) {
  EXPECT_THAT(ParseResiduals("r.csv", "dataset,device,log_error\na,b,nan\n").error().message,
              HasSubstr("r.csv:2:3 (log_error)"));
  EXPECT_THAT(ParseResiduals("r.csv", "dataset,device,log_error\na,b,40\n").error().message,
              HasSubstr("beyond all sense"));
  EXPECT_THAT(ParseResiduals("r.csv", "dataset,device,log_error\n").error().message,
              HasSubstr("no residuals"));
}

class TableFiles : public ::testing::Test {
 protected:
  TableFiles() : cluster_(Cards(1)) {
    models_.Intern({"m", std::nullopt, model::Precision::kFp32});
  }
  std::string TimesError(const std::string& row) {
    auto w = TableWorld::Parse(
        "t.csv", "model,device_type,batch,runtime,precision,latency_ms,memory_bytes\n" + row + "\n",
        models_, cluster_);
    return w ? "accepted" : w.error().message;
  }
  std::string SlowdownError(const std::string& row) {
    auto s = cluster::SlowdownTable::Parse(
        "s.csv", "model_a,batch_a,share_a,model_b,batch_b,share_b,factor_a,factor_b\n" + row + "\n",
        models_);
    return s ? "accepted" : s.error().message;
  }
  cluster::Cluster cluster_;
  model::ModelTable models_;
};

TEST_F(TableFiles, TimesAreTakenAsTheyStand) {
  auto w = TableWorld::Parse(
      "t.csv",
      "model,device_type,batch,latency_ms,memory_bytes,source\nm,A100-SXM4-40GB,8,12.5,99,x\n",
      models_, cluster_);
  ASSERT_TRUE(w) << w.error().message;
  EXPECT_EQ(w->Alone(ModelId(0), DeviceId(0), 8)->batch_s, 0.0125);
  EXPECT_FALSE(w->Alone(ModelId(0), DeviceId(0), 4));
}

TEST_F(TableFiles, ErrorsNameThePlace) {
  EXPECT_THAT(TimesError("m,A100-SXM4-40GB,0,,,5,1"), HasSubstr("t.csv:2:3 (batch): batch 0"));
  EXPECT_THAT(TimesError("m,A100-SXM4-40GB,1,,,-5,1"), HasSubstr("t.csv:2:6 (latency_ms)"));
  EXPECT_THAT(TimesError("m,A100-SXM4-40GB,1,,,5,-1"), HasSubstr("(memory_bytes)"));
  EXPECT_THAT(TimesError("m,A100-SXM4-40GB,1,cuda,,5,1"), HasSubstr("(runtime)"));
  EXPECT_THAT(TimesError(",A100-SXM4-40GB,1,,,5,1"), HasSubstr("t.csv:2:1 (model): empty"));
  EXPECT_THAT(SlowdownError("m,1,0.5,m,1,0.5,0.9,1.2"), HasSubstr("(factor_a): factor 0.9"));
  EXPECT_THAT(SlowdownError("m,1,1.5,m,1,0.5,1.9,1.2"), HasSubstr("(share_a): share 1.5"));
  EXPECT_THAT(SlowdownError("m,0,0.5,m,1,0.5,1.9,1.2"), HasSubstr("(batch_a): batch 0"));
  EXPECT_EQ(SlowdownError("m,1,0.5,,,,1.9,"), "accepted");
}

TEST_F(TableFiles, PairsMultiplyRelativeToTheShareAlone) {
  const auto table = *cluster::SlowdownTable::Parse(
      "s.csv",
      "model_a,batch_a,share_a,model_b,batch_b,share_b,factor_a,factor_b\nm,1,0.5,,,,1.2,\n"
      "m,1,0.5,m,2,0.5,1.8,1.5\n",
      models_);
  const cluster::SlowdownKey a{ModelId(0), 1, MilliShare(500)}, b{ModelId(0), 2, MilliShare(500)};
  EXPECT_DOUBLE_EQ(table.Factor(a, {}), 1.2);
  EXPECT_DOUBLE_EQ(table.Factor(a, std::vector{b}), 1.8);
  EXPECT_DOUBLE_EQ(table.Factor(a, std::vector{b, b}), 1.8 * 1.5);
  EXPECT_DOUBLE_EQ(table.Factor(b, std::vector{a}), 1.5);
  EXPECT_DOUBLE_EQ(table.Factor(b, {}), 2);  // the plain law
}

}  // namespace
}  // namespace hase::world

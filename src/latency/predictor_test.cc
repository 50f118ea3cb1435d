#include "latency/predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/rng.h"

namespace hase::latency {
namespace {

using model::Kernel;
using model::ModelKernels;
using model::OpClass;

Kernel Conv(int64_t batch, int64_t channels, int64_t filters, int64_t size, int window) {
  Kernel k;
  k.name = k.op = "Conv";
  k.op_class = OpClass::kConv;
  k.inputs = {{batch, channels, size, size}, {filters, channels, window, window}};
  k.output = {batch, filters, size, size};
  k.window.kernel = {window, window};
  k.m = batch * size * size;
  k.n = filters;
  k.k = channels * window * window;
  k.gemm_batch = 1;
  k.flops = 2 * k.m * k.n * k.k;
  k.bytes_activations = 4 * batch * channels * size * size;
  k.bytes_weights = 4 * filters * channels * window * window;
  k.bytes_written = 4 * k.m * k.n;
  return k;
}

// What "really" happens: a law that the predictor does not know, smooth in the geometry.
double TruthUs(const Kernel& k) {
  const double gflops =
      60 / (1 + 20.0 / static_cast<double>(k.n)) / (1 + 30.0 / static_cast<double>(k.k));
  return static_cast<double>(k.flops) / (gflops * 1e3) + static_cast<double>(k.bytes()) / 15e3 + 3;
}

// Models made of random convolutions; model i always has the same layers at any batch.
class FakeModels : public KernelSource {
 public:
  Result<const ModelKernels*> Kernels(ModelId id, model::Runtime runtime,
                                      int64_t batch) const override {
    if (batch < 1) return Usage("batch 0");
    auto& model = models_[{id.index(), batch}];
    model = Make(id.index(), batch);
    model.runtime = runtime;
    return &model;
  }
  static ModelKernels Make(uint32_t id, int64_t batch) {
    Rng rng(id + 100);
    ModelKernels model;
    model.model = "net" + std::string(1, static_cast<char>('a' + id));
    model.batch = batch;
    for (int i = 0; i < 12; ++i) {
      model.kernels.push_back(Conv(batch, rng.UniformInt(1, 16) * 16, rng.UniformInt(1, 16) * 16,
                                   rng.UniformInt(2, 8) * 7, rng.UniformInt(0, 1) ? 3 : 1));
      model.memory.weights += Bytes(model.kernels.back().bytes_weights);
    }
    model.memory.peak_activations = MiB(batch);
    return model;
  }

 private:
  mutable std::map<std::pair<uint32_t, int64_t>, ModelKernels> models_;
};

double TruthOfModelUs(const ModelKernels& model) {
  double sum = 0;
  for (const auto& kernel : model.kernels) sum += TruthUs(kernel);
  return sum * 1.02;  // gaps
}

void Profile(uint32_t id, int64_t batch, const std::string& device, double slower, bool kernels,
             std::vector<Sample>* samples) {
  const auto model = FakeModels::Make(id, batch);
  Sample s;
  s.model = model.model;
  s.batch = batch;
  s.device = device;
  s.whole_model = true;
  s.latency_us = TruthOfModelUs(model) * slower;
  s.load_time = FromSeconds(0.2);
  samples->push_back(s);
  s.whole_model = false;
  for (size_t i = 0; kernels && i < model.kernels.size(); ++i) {
    s.kernel = model.kernels[i];
    s.latency_us = TruthUs(s.kernel);
    samples->push_back(s);
  }
}

cluster::DeviceType CpuType(double quota) {
  cluster::DeviceType type;
  type.spec.kind = cluster::DeviceKind::kCpu;
  type.runtime = model::Runtime::kOrtCpu;
  type.cores = 1;
  type.quota = ShareFromFraction(quota);
  type.name = quota == 1 ? "cpu-1c-q1" : "cpu-1c-q" + std::to_string(quota).substr(0, 3);
  return type;
}

constexpr uint32_t kProfiled = 20, kUnseen = 21;

class PredictorTest : public ::testing::Test {
 protected:
  PredictorTest() {
    for (uint32_t id = 0; id < kProfiled; ++id) Profile(id, 1, "cpu-1c-q1", 1, true, &samples_);
    for (uint32_t id = 0; id < 3; ++id) Profile(id, 1, "cpu-1c-q0.5", 2.2, false, &samples_);
  }
  Predictor Make() const { return Predictor(&models_, {CpuType(1), CpuType(0.5)}, samples_, {}); }
  static double Error(const Estimate& e, double truth_us) {
    return std::abs(e.latency_s * 1e6 / truth_us - 1);
  }
  FakeModels models_;
  std::vector<Sample> samples_;
};

TEST_F(PredictorTest, WhatWasMeasuredIsBelieved) {
  const auto p = Make();
  const auto* e = p.Find(ModelId(4), DeviceTypeId(0), 1);
  ASSERT_NE(e, nullptr);
  EXPECT_LT(Error(*e, TruthOfModelUs(FakeModels::Make(4, 1))), 1e-9);
  EXPECT_EQ(e->basis, "measured on cpu-1c-q1 at batch 1");
  EXPECT_LT(e->shared_sigma, 0.05);
  EXPECT_FALSE(e->extrapolated);
  EXPECT_NEAR(e->load_s, 0.2, 1e-9);
  EXPECT_EQ(e, p.Find(ModelId(4), DeviceTypeId(0), 1)) << "memoised";
}

TEST_F(PredictorTest, AnotherPartitionIsScaledByWhatPairsShow) {
  // Three pairs show 2.2 where the quota alone says 2.0.
  const auto p = Make();
  const auto* e = p.Find(ModelId(7), DeviceTypeId(1), 1);
  EXPECT_LT(Error(*e, 2.2 * TruthOfModelUs(FakeModels::Make(7, 1))), 0.03);
  EXPECT_NEAR(e->load_s, 0.44, 0.02);
}

TEST_F(PredictorTest, AnotherBatchIsScaledKernelByKernel) {
  const auto p = Make();
  const auto* e = p.Find(ModelId(5), DeviceTypeId(0), 4);
  EXPECT_LT(Error(*e, TruthOfModelUs(FakeModels::Make(5, 4))), 0.10);
  EXPECT_NE(e->basis.find("kernel by kernel"), std::string::npos);
}

TEST_F(PredictorTest, AModelNeverMeasuredIsBuiltFromItsKernels) {
  const auto p = Make();
  for (uint32_t id = kUnseen; id < kUnseen + 4; ++id) {
    const auto* e = p.Find(ModelId(id), DeviceTypeId(0), 1);
    const double truth = TruthOfModelUs(FakeModels::Make(id, 1));
    EXPECT_LT(Error(*e, truth), 0.12);
    EXPECT_GT(e->QuantileOfOne(0.99) * 1e6, truth);
    EXPECT_LT(e->QuantileOfOne(0.01) * 1e6, truth);
  }
}

TEST_F(PredictorTest, AModelHiddenFromItIsPredictedWorseThanAMeasuredOneButStillWell) {
  Predictor::Options options;
  options.without = {"netc"};
  const Predictor p(&models_, {CpuType(1)}, samples_, options);
  const auto* e = p.Find(ModelId(2), DeviceTypeId(0), 1);
  EXPECT_GT(Error(*e, TruthOfModelUs(FakeModels::Make(2, 1))), 1e-6);
  EXPECT_LT(Error(*e, TruthOfModelUs(FakeModels::Make(2, 1))), 0.12);
}

TEST_F(PredictorTest, WithoutAnySampleItAnswersFromTheRooflineAndSaysSo) {
  const Predictor p(&models_, {CpuType(1)}, {}, {});
  const auto* e = p.Find(ModelId(1), DeviceTypeId(0), 1);
  ASSERT_NE(e, nullptr);
  EXPECT_TRUE(e->extrapolated);
  EXPECT_GE(e->shared_sigma, 0.4);
}

TEST_F(PredictorTest, WithoutAnySampleAQuotaSlowsDown) {
  const Predictor p(&models_, {CpuType(1), CpuType(0.6), CpuType(0.3)}, {}, {});
  const double whole = p.Find(ModelId(1), DeviceTypeId(0), 1)->latency_s;
  EXPECT_NEAR(p.Find(ModelId(1), DeviceTypeId(1), 1)->latency_s, whole / 0.6, 1e-9);
  EXPECT_NEAR(p.Find(ModelId(1), DeviceTypeId(2), 1)->latency_s, whole / 0.3, 1e-9);
  // Measured micro-benchmarks ran under the quota already.
  auto measured = CpuType(0.3);
  measured.bench.measured = true;
  const Predictor q(&models_, {measured}, {}, {});
  EXPECT_NEAR(q.Find(ModelId(1), DeviceTypeId(0), 1)->latency_s, whole, 1e-9);
}

TEST_F(PredictorTest, ListedKernelsSumToTheLatency) {
  const auto p = Make();
  const auto e = p.Explain(ModelId(kUnseen), DeviceTypeId(1), 2);
  ASSERT_TRUE(e.has_value());
  double sum = 0;
  for (const auto& kernel : e->kernels) sum += kernel.latency_us;
  EXPECT_NEAR(sum * 1e-6, e->latency_s, e->latency_s * 1e-9);
  EXPECT_NEAR(e->compute_part + e->bandwidth_part + e->launch_part, 1, 1e-9);
}

TEST_F(PredictorTest, SaysWhyThereIsNoEstimate) {
  const auto p = Make();
  EXPECT_EQ(p.Find(ModelId(1), DeviceTypeId(0), 0), nullptr);
  EXPECT_EQ(p.WhyNot(ModelId(1), DeviceTypeId(0), 0), "batch 0");
  EXPECT_EQ(p.WhyNot(ModelId(1), DeviceTypeId(0), 1), "");
}

TEST_F(PredictorTest, GpuNeverMeasuredIsFiniteForAnyBatchAndGrowsWithIt) {
  cluster::DeviceType gpu;
  gpu.spec.name = gpu.name = "T4";
  gpu.spec.compute_capability = 75;
  gpu.spec.sm_count = 40;
  gpu.spec.boost_clock_mhz = 1590;
  gpu.spec.bandwidth_gb_s = 320;
  gpu.spec.peak_tflops = {8.1, 0, 65, 0, 130};
  gpu.spec.pcie_gb_s = 16;
  gpu.runtime = model::Runtime::kOrtCuda;
  const Predictor p(&models_, {gpu}, {}, {});
  double last = 0;
  for (int64_t batch = 1; batch <= 256; batch *= 2) {
    const auto* e = p.Find(ModelId(0), DeviceTypeId(0), batch);
    ASSERT_NE(e, nullptr) << p.WhyNot(ModelId(0), DeviceTypeId(0), batch);
    EXPECT_GE(e->latency_s, last);
    EXPECT_TRUE(e->extrapolated);
    last = e->latency_s;
  }
  const Tenant whole{ModelId(0), 8, kWholeDevice}, half{ModelId(0), 8, MilliShare(500)};
  EXPECT_DOUBLE_EQ(p.Slowdown(whole, DeviceTypeId(0), {}, {}), 1);
  EXPECT_GT(p.Slowdown(half, DeviceTypeId(0), std::vector{half}, {}),
            p.Slowdown(half, DeviceTypeId(0), {}, {}));
}

TEST(Partition, ReadsItsName) {
  const auto p = ParsePartition("cpu-2c-q0.6");
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->cores, 2);
  EXPECT_DOUBLE_EQ(p->quota, 0.6);
  for (const char* bad :
       {"T4", "cpu-", "cpu-2c", "cpu-0c-q1", "cpu-1c-q0", "cpu-1c-q1.5", "cpu-1c-q1x"}) {
    EXPECT_FALSE(ParsePartition(bad).has_value()) << bad;
  }
}

TEST(Family, IsWhatNamesShare) {
  EXPECT_EQ(FamilyOf("resnet50"), "resnet");
  EXPECT_EQ(FamilyOf("yolov8n"), "yolo");
  EXPECT_EQ(FamilyOf("yolov3_tiny"), "yolo");
  EXPECT_EQ(FamilyOf("mobilenet_v3_large"), "mobilenet");
}

}  // namespace
}  // namespace hase::latency

// The trained predictor as shipped: it loads, answers for every card and model, and keeps to
// physics. No measured data is needed here.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/file.h"
#include "base/paths.h"
#include "cluster/catalogue.h"
#include "latency/data/shapes.h"
#include "latency/ensemble.h"
#include "latency/kernel_model.h"
#include "model/library.h"

namespace hase::latency {
namespace {

const KernelModel& Shipped() {
  static const auto* model = [] {
    auto loaded = KernelModel::LoadShipped();
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return new KernelModel(loaded ? std::move(*loaded) : KernelModel::RooflineOnly());
  }();
  return *model;
}

cluster::DeviceSpec Card(std::string_view name) {
  const auto catalogue = cluster::Catalogue::Load();
  EXPECT_TRUE(catalogue);
  const auto spec = catalogue->Find(name);
  EXPECT_TRUE(spec);
  return *spec;
}

model::Kernel Conv3x3(int64_t batch, int64_t channels, int64_t size) {
  ConvShape shape{.batch = batch,
                  .in_channels = channels,
                  .height = size,
                  .width = size,
                  .out_channels = channels};
  shape.window.kernel = {3, 3};
  shape.window.pad = {1, 1, 1, 1};
  return ConvKernel(shape);
}

TEST(ShippedModel, Loads) {
  EXPECT_FALSE(Shipped().file().ensembles.empty());
  EXPECT_NE(Shipped().file().Find(Family::kConv, Convention::kTensorRtEngine), nullptr);
}

TEST(ShippedModel, ADamagedFileIsRefused) {
  const auto path = DataFile("predictor.bin");
  ASSERT_TRUE(path);
  const auto bytes = ReadFile(*path);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(ReadModelFile("predictor.bin", *bytes));
  for (const size_t part : {size_t{0}, size_t{10}, size_t{1000}, bytes->size() / 2}) {
    EXPECT_FALSE(ReadModelFile("predictor.bin", bytes->substr(0, part))) << part;
  }
}

TEST(ShippedModel, AnyZooModelOnAnyCardIsFiniteAndAboveTheComputeBound) {
  const auto catalogue = cluster::Catalogue::Load();
  ASSERT_TRUE(catalogue);
  const auto data = DataDir();
  ASSERT_TRUE(data);
  model::ModelLibrary library(*data);
  constexpr int64_t kBatches[] = {1, 256, 8, 32, 2, 64};
  constexpr model::Runtime kRuntimes[] = {model::Runtime::kOrtCuda, model::Runtime::kTensorRt,
                                          model::Runtime::kPyTorch};
  size_t turn = 0;
  for (const auto& name : model::ZooNames(*data)) {
    const auto id = library.Intern({.name = name, .runtime = std::nullopt});
    ASSERT_TRUE(id) << id.error().message;
    for (const auto& spec : catalogue->specs()) {
      if (spec.kind != cluster::DeviceKind::kGpu) continue;
      const int64_t batch = kBatches[turn % std::size(kBatches)];
      const auto runtime = kRuntimes[turn++ % std::size(kRuntimes)];
      const auto kernels = library.Kernels(*id, runtime, batch);
      ASSERT_TRUE(kernels) << kernels.error().message;
      // Each launch once; every fourth of them keeps the test short.
      std::vector<const model::Kernel*> some;
      std::set<std::string> met;
      for (size_t i = turn % 4; i < (*kernels)->kernels.size(); i += 4) {
        const auto& kernel = (*kernels)->kernels[i];
        if (met.insert(GeometryKey(kernel)).second) some.push_back(&kernel);
      }
      std::vector<KernelOutput> out(some.size());
      Shipped().PredictMany(some, {.spec = &spec, .runtime = runtime}, out);
      for (size_t i = 0; i < out.size(); ++i) {
        const auto& o = out[i];
        ASSERT_TRUE(std::isfinite(o.latency_us) && o.latency_us > 0 && o.latency_us < 1e8 &&
                    o.latency_us >= o.compute_us && o.p10_us <= o.latency_us &&
                    o.p90_us >= o.latency_us && std::isfinite(o.p90_us) && o.independent_sigma >= 0)
            << name << " on " << spec.name << " at batch " << batch << ": " << some[i]->name << " "
            << o.latency_us << " us";
      }
    }
  }
}

TEST(ShippedModel, MoreWorkOrASlowerCardIsNotFasterBeyondTheInterval) {
  for (const auto* name : {"T4", "V100-PCIE-32GB", "A100-PCIE-80GB", "L4"}) {
    const auto spec = Card(name);
    auto slower = spec;
    slower.name = "slower twin";
    slower.boost_clock_mhz = spec.boost_clock_mhz * 6 / 10;
    slower.bandwidth_gb_s *= 0.6;
    for (double& peak : slower.peak_tflops) peak *= 0.6;
    for (const int64_t channels : {64, 128, 256, 512}) {
      const auto small = Conv3x3(8, channels, 28), large = Conv3x3(16, channels, 28);
      const auto a = Shipped().Predict(small, {.spec = &spec});
      const auto b = Shipped().Predict(large, {.spec = &spec});
      EXPECT_GE(b.p90_us, a.p10_us) << name << " " << channels;
      const auto c = Shipped().Predict(large, {.spec = &slower});
      EXPECT_GE(c.p90_us, b.p10_us) << name << " " << channels;
    }
  }
}

// One property at a time, over every kind of kernel: a slower clock, less bandwidth, more FLOPs.
TEST(ShippedModel, NothingSlowerIsPredictedFasterBeyondTheInterval) {
  const auto conv = [](int64_t batch, int64_t in, int64_t out, int64_t size, int32_t window,
                       int32_t groups) {
    ConvShape shape{
        .batch = batch, .in_channels = in, .height = size, .width = size, .out_channels = out};
    shape.window.kernel = {window, window};
    shape.window.pad = {window / 2, window / 2, window / 2, window / 2};
    shape.window.groups = groups;
    return ConvKernel(shape);
  };
  // A kernel and one of the same class with twice the FLOPs.
  const std::vector<std::pair<model::Kernel, model::Kernel>> kernels = {
      {conv(8, 64, 64, 56, 3, 1), conv(8, 64, 128, 56, 3, 1)},
      {conv(8, 256, 64, 28, 1, 1), conv(8, 256, 128, 28, 1, 1)},
      {conv(4, 96, 96, 28, 3, 96), conv(8, 96, 96, 28, 3, 96)},
      {GemmKernel({.m = 256, .n = 512, .k = 512, .weights = true}),
       GemmKernel({.m = 256, .n = 512, .k = 1024, .weights = true})},
      {ElementwiseKernel("Add", 512, 4096, false, model::Precision::kFp32),
       ElementwiseKernel("Add", 1024, 4096, false, model::Precision::kFp32)},
      {ElementwiseKernel("Softmax", 2048, 1024, false, model::Precision::kFp32),
       ElementwiseKernel("Softmax", 4096, 1024, false, model::Precision::kFp32)}};
  for (const auto* name : {"T4", "V100-PCIE-32GB", "A100-PCIE-80GB", "L4", "H100-SXM5-80GB"}) {
    const auto spec = Card(name);
    auto clocked = spec, narrow = spec;
    clocked.name = "slower clock", narrow.name = "less bandwidth";
    clocked.boost_clock_mhz = spec.boost_clock_mhz / 2;
    for (double& peak : clocked.peak_tflops) peak /= 2;
    narrow.bandwidth_gb_s /= 2;
    for (const auto& [small, large] : kernels) {
      for (const auto runtime : {model::Runtime::kOrtCuda, model::Runtime::kTensorRt}) {
        const auto on = [&](const model::Kernel& kernel, const cluster::DeviceSpec& card) {
          return Shipped().Predict(kernel, {.spec = &card, .runtime = runtime});
        };
        const auto base = on(small, spec);
        EXPECT_GE(on(small, clocked).p90_us, base.p10_us) << name << " " << small.op;
        EXPECT_GE(on(small, narrow).p90_us, base.p10_us) << name << " " << small.op;
        EXPECT_GE(on(large, spec).p90_us, base.p10_us) << name << " " << small.op;
      }
    }
  }
}

TEST(ShippedModel, ManyAtOnceIsOneByOne) {
  const auto spec = Card("V100-SXM2-32GB");
  const KernelTarget target{.spec = &spec, .runtime = model::Runtime::kTensorRt};
  std::vector<model::Kernel> kernels;
  for (int64_t size = 7; size <= 56; size += 7) kernels.push_back(Conv3x3(4, 64, size));
  std::vector<const model::Kernel*> pointers;
  for (const auto& kernel : kernels) pointers.push_back(&kernel);
  std::vector<KernelOutput> out(kernels.size());
  Shipped().PredictMany(pointers, target, out);
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(out[i].latency_us, Shipped().Predict(kernels[i], target).latency_us);
    EXPECT_FALSE(out[i].extrapolated);
  }
}

TEST(ShippedModel, APrecisionNeverMeasuredIsMarked) {
  const auto spec = Card("T4");
  auto kernel = Conv3x3(4, 64, 28);
  kernel.precision = model::Precision::kFp16;
  const auto out = Shipped().Predict(kernel, {.spec = &spec, .runtime = model::Runtime::kOrtCuda});
  EXPECT_TRUE(out.extrapolated);
}

}  // namespace
}  // namespace hase::latency

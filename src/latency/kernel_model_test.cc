#include "latency/kernel_model.h"

#include <gtest/gtest.h>

namespace hase::latency {
namespace {

cluster::DeviceSpec Card() {
  cluster::DeviceSpec spec;
  spec.sm_count = 80;
  spec.cores_per_sm = 64;
  spec.boost_clock_mhz = 1530;
  spec.bandwidth_gb_s = 900;
  spec.peak_tflops = {15.7, 0, 125, 0, 0};
  return spec;
}

model::Kernel Gemm(int64_t m, int64_t n, int64_t k) {
  model::Kernel kernel;
  kernel.op_class = model::OpClass::kGemm;
  kernel.m = m, kernel.n = n, kernel.k = k, kernel.gemm_batch = 1;
  kernel.flops = 2 * m * n * k;
  kernel.bytes_activations = 4 * m * k;
  kernel.bytes_weights = 4 * n * k;
  kernel.bytes_written = 4 * m * n;
  return kernel;
}

TEST(Roofline, TakesTheGreaterOfComputeAndMemoryAndAddsTheLaunch) {
  const Roofline big = ComputeRoofline(Gemm(4096, 4096, 4096), Card(), 4);
  EXPECT_NEAR(big.compute_us, 2.0 * 4096 * 4096 * 4096 / 15.7e6, 1e-6);
  EXPECT_GT(big.compute_us, big.memory_us);
  EXPECT_DOUBLE_EQ(big.total_us(), big.compute_us + 4);
  const Roofline thin = ComputeRoofline(Gemm(1, 4096, 4096), Card(), 4);
  EXPECT_GT(thin.memory_us, thin.compute_us);
}

TEST(Roofline, APrecisionTheCardLacksRunsInTheNextWiderOne) {
  auto kernel = Gemm(512, 512, 512);
  kernel.precision = model::Precision::kBf16;
  EXPECT_NEAR(ComputeRoofline(kernel, Card(), 0).compute_us, 2.0 * 512 * 512 * 512 / 125e6, 1e-9);
}

TEST(KernelModel, WithoutTreesSaysThatItExtrapolates) {
  const auto spec = Card();
  const KernelOutput out = KernelModel::RooflineOnly().Predict(Gemm(64, 64, 64), {.spec = &spec});
  EXPECT_TRUE(out.extrapolated);
  EXPECT_GE(out.latency_us, out.compute_us);
  EXPECT_LT(out.p10_us, out.latency_us);
  EXPECT_GT(out.p90_us, out.latency_us);
}

}  // namespace
}  // namespace hase::latency

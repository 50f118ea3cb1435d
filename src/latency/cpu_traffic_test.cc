#include "latency/cpu_traffic.h"

#include <gtest/gtest.h>

#include <vector>

namespace hase::latency {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

model::Kernel Moves(int64_t read, int64_t written, model::Reuse reuse) {
  model::Kernel k;
  k.bytes_activations = read;
  k.bytes_written = written;
  k.reuse = reuse;
  return k;
}

TEST(CpuTraffic, ReuseSaysWhereBytesLie) {
  const auto bytes = [](model::Reuse reuse) {
    const auto k = Moves(100, 10, reuse);
    return CpuTraffic::BytesOf(k, OctavesOf(k, 1));
  };
  EXPECT_EQ(bytes({.activations = kMiB / 2, .output = 32 * kMiB}),
            (CpuTraffic::Bytes{100, 0, 0, 0, 0, 10}));
  EXPECT_EQ(bytes({.activations = 4 * kMiB, .output = 4 * kMiB}),
            (CpuTraffic::Bytes{0, 100, 0, 0, 10, 0}));
  // Not known: as far as the model is large, here 1 MiB.
  EXPECT_EQ(bytes({}), (CpuTraffic::Bytes{100, 0, 0, 10, 0, 0}));
}

// Prices of a made-up core, far from the ones assumed, are found again, and slow kernels of another
// kind among the rows do not move them much.
TEST(CpuTraffic, PricesAreFittedFromCopies) {
  constexpr double kTrue[6] = {1 / 40e3, 1 / 30e3, 1 / 10e3, 1 / 50e3, 1 / 25e3, 1 / 8e3};
  std::vector<std::pair<CpuTraffic::Bytes, double>> rows;
  for (int i = 0; i < 300; ++i) {
    CpuTraffic::Bytes bytes{};
    bytes[static_cast<size_t>(i % 3)] = 1e6 + 1e4 * i;
    bytes[static_cast<size_t>(3 + i / 3 % 3)] = 2e6 - 3e3 * i;
    double us = 0;
    for (size_t j = 0; j < 6; ++j) us += kTrue[j] * bytes[j];
    rows.emplace_back(bytes, i % 10 == 0 ? 4 * us : us);
  }
  const CpuTraffic fitted(rows), assumed;
  for (size_t j = 0; j < 6; ++j) {
    CpuTraffic::Bytes one{};
    one[j] = 1e6;
    EXPECT_NEAR(fitted.Us(one) / (1e6 * kTrue[j]), 1, 0.2) << j;
  }
  rows.resize(1);
  const auto first = rows[0].first;
  rows.clear();
  EXPECT_DOUBLE_EQ(CpuTraffic(rows).Us(first), assumed.Us(first));
}

}  // namespace
}  // namespace hase::latency

#include "cluster/micro_benchmarks.h"

#include <algorithm>
#include <cmath>

namespace hase::cluster {
namespace {

using M = MicroBenchmarks;
using K = MicroKind;

constexpr MicroBenchmark Gemm(std::string_view name, double M::* field, int64_t m) {
  return {.name = name, .kind = K::kGemm, .field = field, .m = m};
}
constexpr MicroBenchmark Conv(std::string_view name, K kind, double M::* field, int64_t channels,
                              int64_t size, int64_t window) {
  return {.name = name,
          .kind = kind,
          .field = field,
          .channels = channels,
          .size = size,
          .window = window};
}
constexpr MicroBenchmark Copy(std::string_view name, double M::* field, int64_t mib) {
  return {.name = name, .kind = K::kCopy, .field = field, .bytes = mib << 20};
}

constexpr MicroBenchmark kCpu[] = {
    Gemm("gemm-128", &M::gemm_small, 128),
    Gemm("gemm-512", &M::gemm_medium, 512),
    Gemm("gemm-1024", &M::gemm_large, 1024),
    Conv("conv3x3", K::kConv, &M::conv3x3, 64, 56, 3),
    Conv("conv1x1", K::kConv, &M::conv1x1, 256, 28, 1),
    Conv("depthwise", K::kDepthwise, &M::depthwise, 256, 56, 3),
    Copy("copy-1MiB", &M::copy_small, 1),
    Copy("copy-16MiB", &M::copy_medium, 16),
    Copy("copy-256MiB", &M::copy_large, 256),
    {.name = "launch", .kind = K::kLaunch, .field = &M::launch_us},
};
constexpr MicroBenchmark kGpu[] = {
    kCpu[0], kCpu[1], Gemm("gemm-2048", &M::gemm_large, 2048),
    kCpu[3], kCpu[4], kCpu[5],
    kCpu[6], kCpu[7], kCpu[8],
    kCpu[9],
};

constexpr double kReached = 0.85;     // of peak and of bandwidth, by good libraries on large work
constexpr double kWinograd = 1.5;     // what 3×3 convolution gains in practice, of 2.25 at most
constexpr double kCacheFactor = 3.0;  // L2 over DRAM bandwidth
constexpr double kLaunchSeconds = 3e-6;
constexpr double kDispatchSeconds = 5e-6;  // an ONNX Runtime CPU node

double Fill(double rows, double columns, int units) {
  const double blocks = std::ceil(rows / 64) * std::ceil(columns / 64);
  return blocks / (std::ceil(blocks / units) * units);
}

}  // namespace

double MicroBenchmark::flops() const {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const double pixels = d(size) * d(size), area = d(window) * d(window);
  switch (kind) {
    case K::kGemm:
      return 2 * d(m) * d(m) * d(m);
    case K::kConv:
      return 2 * pixels * d(channels) * d(channels) * area;
    case K::kDepthwise:
      return 2 * pixels * d(channels) * area;
    case K::kCopy:
    case K::kLaunch:
      return 0;
  }
  return 0;
}

std::span<const MicroBenchmark> MicroBenchmarkList(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return kCpu;
  return kGpu;
}

MicroBenchmarks EstimateMicroBenchmarks(const DeviceSpec& spec) {
  MicroBenchmarks bench;
  const bool gpu = spec.kind == DeviceKind::kGpu;
  const double launch = gpu ? kLaunchSeconds : kDispatchSeconds;
  const double peak = kReached * 1e12 * std::max(spec.peak_tflops[0], 1e-3);
  const double bandwidth = kReached * 1e9 * std::max(spec.bandwidth_gb_s, 1e-3);
  const int units = std::max(spec.sm_count, 1);
  for (const auto& entry : MicroBenchmarkList(spec.kind)) {
    const double pixels = static_cast<double>(entry.size * entry.size);
    const auto channels = static_cast<double>(entry.channels);
    double fill = 1, gain = 1, bytes = 2 * static_cast<double>(entry.bytes);
    if (entry.kind == K::kGemm) {
      fill = Fill(static_cast<double>(entry.m), static_cast<double>(entry.m), units);
      bytes = 12.0 * static_cast<double>(entry.m * entry.m);
    } else if (entry.kind == K::kConv || entry.kind == K::kDepthwise) {
      if (entry.kind == K::kConv) fill = Fill(pixels, channels, units);
      if (entry.kind == K::kConv && entry.window == 3) gain = kWinograd;
      bytes = 8 * pixels * channels;
    }
    const bool cached = bytes <= static_cast<double>(spec.l2.value());
    const double memory_time = bytes / (bandwidth * (cached ? kCacheFactor : 1));
    const double t = launch + std::max(entry.flops() / (peak * fill * gain), memory_time);
    const double rate = (entry.kind == K::kCopy ? bytes : entry.flops()) / t * 1e-9;
    bench.*entry.field = entry.kind == K::kLaunch ? launch * 1e6 : rate;
  }
  bench.sm_clock_mhz = spec.boost_clock_mhz;
  bench.host_to_device_gb_s = gpu ? 0.8 * spec.pcie_gb_s : bench.copy_large;
  return bench;
}

}  // namespace hase::cluster

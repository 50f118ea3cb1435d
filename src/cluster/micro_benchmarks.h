// The micro-benchmarks every device is described by, and what they would show on a card that is
// known from its data sheet only.
//
// The list is shared by `hase bench`, which runs it through ONNX Runtime, and by the estimate, so
// that a measured and an estimated vector mean the same: fp32, whole device, achieved rates
// including the launch.
#pragma once

#include <span>
#include <string_view>

#include "cluster/device.h"

namespace hase::cluster {

enum class MicroKind : uint8_t { kGemm, kConv, kDepthwise, kCopy, kLaunch };

// One entry. GEMM: m × n × k. Convolutions: batch 1, `channels` in and out (depthwise: groups =
// channels), `size` × `size` pixels, same padding. Copy: `bytes` read and as many written.
struct MicroBenchmark {
  std::string_view name;
  MicroKind kind;
  double MicroBenchmarks::* field;  // where the result goes
  int64_t m = 0;                    // GEMM: m = n = k
  int64_t channels = 0, size = 0, window = 0;
  int64_t bytes = 0;
  // 2 per multiply-add; 0 where the result is a bandwidth or a time.
  double flops() const;
};

// In the order of the fields; large GEMM is 2048³ on GPUs and 1024³ on CPUs.
std::span<const MicroBenchmark> MicroBenchmarkList(DeviceKind kind);

// From the specification alone (measured = false). For each entry
//   t = launch + max(flops / (0.85 · peak · fill), bytes / (0.85 · bandwidth)),
// fill = blocks / (ceil(blocks / SMs) · SMs) with 64 × 64 output tiles (wave quantisation), 0.85
// the part of the peak that good libraries reach; 3×3 convolution gets gain 1.5 of Winograd's 2.25;
// small and medium copies run from L2 (3 × DRAM bandwidth) if both halves fit it; launch 3 µs;
// host to device 0.8 of the link. Coarse by design: whoever uses it widens intervals.
MicroBenchmarks EstimateMicroBenchmarks(const DeviceSpec& spec);

}  // namespace hase::cluster

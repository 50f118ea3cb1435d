// CpuTraffic: what a kernel's operands cost to fetch and to write, by where they lie.
//
// Reads and writes each have three prices per byte: near (the core's own cache), middle (the shared
// one) and far (memory); how much of a kernel's bytes lies where follows from how much memory was
// touched since they were last (Kernel::reuse). A write into a buffer that has left the caches
// fetches it first, so it costs, too.
//
// The prices are fitted to measured copies and elementwise work, by non-negative least squares on
// relative errors, reweighted so that what is not bound by memory counts little, and held near
// prices of a middling core (also what stands while nothing was measured).
#pragma once

#include <array>
#include <span>
#include <utility>

#include "model/kernel.h"

namespace hase::latency {

// log2 of how many MiB were touched since a kernel's activations, weights and output were: from 0
// (1 MiB: a core's own cache) to 5 (32 MiB: nothing is left). `unknown_mib` stands for what the
// kernel does not know.
struct ReuseOctaves {
  double activations = 0, weights = 0, output = 0;
};
ReuseOctaves OctavesOf(const model::Kernel& kernel, double unknown_mib);

class CpuTraffic {
 public:
  // Read near, middle, far; written near, middle, far.
  using Bytes = std::array<double, 6>;
  static Bytes BytesOf(const model::Kernel& kernel, const ReuseOctaves& octaves);

  CpuTraffic();
  // Pairs of BytesOf a kernel that computes next to nothing, and its time less the dispatch.
  explicit CpuTraffic(std::span<const std::pair<Bytes, double>> measured);

  double Us(const Bytes& bytes) const;

 private:
  std::array<double, 6> us_per_byte_;
};

}  // namespace hase::latency

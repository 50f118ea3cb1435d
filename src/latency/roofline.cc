// The physical floor of a kernel's time: what the arithmetic units, the memory and the launch ask
// for at the least. Source: Williams, Waterman, Patterson, "Roofline", CACM 2009; the gain of 2.25
// is Winograd's F(2x2, 3x3) (Lavin and Gray, 2016). Caches are not modelled here: the trees are.
#include <algorithm>

#include "latency/kernel_model.h"

namespace hase::latency {

using model::Precision;

// Tensor cores of NVIDIA's consumer cards add up in fp32 at half the rate of fp16, and libraries
// add up in fp32. Their bf16 rate says so; Turing has none, its consumer cards are told by name.
namespace {
double Fp16Peak(const cluster::DeviceSpec& spec) {
  const double fp16 = spec.peak_tflops[static_cast<size_t>(Precision::kFp16)];
  const double bf16 = spec.peak_tflops[static_cast<size_t>(Precision::kBf16)];
  if (spec.vendor != "NVIDIA") return fp16;
  if (spec.compute_capability == 75 && spec.name.starts_with("RTX-20")) return fp16 / 2;
  return bf16 > 0 ? std::min(fp16, bf16) : fp16;
}
}  // namespace

double PeakTflops(const cluster::DeviceSpec& spec, Precision precision) {
  const auto at = [&](Precision p) { return spec.peak_tflops[static_cast<size_t>(p)]; };
  double peak = precision == Precision::kFp16 ? Fp16Peak(spec) : at(precision);
  // A card without the format computes in the next wider one.
  if (peak <= 0 && (precision == Precision::kBf16 || precision == Precision::kInt8)) {
    peak = Fp16Peak(spec);
  }
  if (peak <= 0) peak = at(Precision::kFp32);
  if (peak > 0) return peak;
  // A specification without peaks: two flops per core and clock (16 per core of a CPU).
  const double cores =
      std::max(1, spec.sm_count) *
      (spec.kind == cluster::DeviceKind::kCpu ? 16.0 : std::max(1, spec.cores_per_sm));
  return 2e-6 * cores * std::max(1, spec.boost_clock_mhz);
}

Roofline ComputeRoofline(const model::Kernel& kernel, const cluster::DeviceSpec& spec,
                         double launch_us) {
  const double peak = PeakTflops(spec, kernel.precision);
  const double bandwidth = spec.bandwidth_gb_s > 0 ? spec.bandwidth_gb_s : 10.0;
  return {.compute_us = static_cast<double>(kernel.flops) / (peak * 1e6 * kernel.algorithm_gain()),
          .memory_us = static_cast<double>(kernel.bytes()) / (bandwidth * 1e3),
          .launch_us = launch_us};
}

}  // namespace hase::latency

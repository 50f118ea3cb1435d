#include "latency/kernel_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hase::latency {
namespace {

constexpr std::string_view kConventions[] = {
    "tensorrt-engine", "pytorch-events", "tensorflow-session", "library-call",
    "serving-gemm",    "kernel-profile", "miopen-solver"};
static_assert(std::size(kConventions) == kConventionCount);

// Without trees: how far above the roofline kernels usually are, and how far that varies.
constexpr double kTypicalFactor = 1.8;
constexpr double kWideSigma = 0.45;
constexpr double kQuantile90 = 1.2815515655446004;  // of the standard normal

double LaunchMicros(const KernelTarget& target) {
  if (target.bench != nullptr && target.bench->launch_us > 0) return target.bench->launch_us;
  return target.spec->kind == cluster::DeviceKind::kCpu ? 1.0 : 4.0;
}

}  // namespace

std::string_view ToString(Convention c) { return kConventions[static_cast<size_t>(c)]; }

struct KernelModel::Impl {};

KernelModel::KernelModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelModel::KernelModel(KernelModel&&) noexcept = default;
KernelModel& KernelModel::operator=(KernelModel&&) noexcept = default;
KernelModel::~KernelModel() = default;

KernelModel KernelModel::RooflineOnly() { return KernelModel(std::make_unique<Impl>()); }

Result<KernelModel> KernelModel::Load(const std::filesystem::path& path) {
  return Unavailable(
      fmt::format("{}: reading trained trees comes with `hase train`", path.string()));
}

KernelOutput KernelModel::Predict(const model::Kernel& kernel, const KernelTarget& target) const {
  KernelOutput out;
  const model::Kernel* one = &kernel;
  PredictMany({&one, 1}, target, {&out, 1});
  return out;
}

void KernelModel::PredictMany(std::span<const model::Kernel* const> kernels,
                              const KernelTarget& target, std::span<KernelOutput> out) const {
  HASE_CHECK(kernels.size() == out.size(), "{} kernels, {} outputs", kernels.size(), out.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Roofline roof = ComputeRoofline(*kernels[i], *target.spec, LaunchMicros(target));
    KernelOutput& o = out[i];
    o = {};
    o.roofline_us = roof.total_us();
    o.compute_us = roof.compute_us;
    o.memory_us = roof.memory_us;
    o.launch_us = roof.launch_us;
    o.latency_us = std::max(roof.total_us() * kTypicalFactor, roof.compute_us);
    o.shared_sigma = o.independent_sigma = kWideSigma / std::sqrt(2.0);
    o.p10_us = std::max(roof.compute_us, o.latency_us * std::exp(-kQuantile90 * kWideSigma));
    o.p90_us = o.latency_us * std::exp(kQuantile90 * kWideSigma);
    o.extrapolated = true;
  }
}

std::vector<std::pair<std::string, double>> KernelModel::Explain(const model::Kernel& kernel,
                                                                 const KernelTarget& target) const {
  const Roofline roof = ComputeRoofline(kernel, *target.spec, LaunchMicros(target));
  return {{"compute_us", roof.compute_us},
          {"memory_us", roof.memory_us},
          {"launch_us", roof.launch_us}};
}

std::string KernelModel::Describe() const { return "roofline only, no trees"; }

}  // namespace hase::latency

#include "latency/cpu_traffic.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hase::latency {
namespace {

constexpr double kMost = 5;  // octaves above 1 MiB
// Octaves over which bytes pass from near to middle, and from there to far.
constexpr double kMiddleAt = 2, kFarFrom = 2.5, kFarAt = 4.5;
constexpr std::array<double, 6> kGigabytesPerSecond = {100, 60, 20, 100, 50, 20};
constexpr double kPrior = 9;   // how many kernels the prices above count as, each
constexpr double kMiss = 0.1;  // relative error beyond which a kernel counts less
constexpr int kReweighted = 20, kSweeps = 200;

double Octaves(int64_t bytes, double unknown_mib) {
  const double mib = bytes > 0 ? static_cast<double>(bytes) / (1 << 20) : unknown_mib;
  return std::clamp(std::log2(std::max(mib, 1.0)), 0.0, kMost);
}

void Spread(double bytes, double octaves, double* near) {
  const double beyond_near = std::clamp(octaves / kMiddleAt, 0.0, 1.0);
  const double far = std::clamp((octaves - kFarFrom) / (kFarAt - kFarFrom), 0.0, 1.0);
  near[0] += bytes * (1 - beyond_near);
  near[1] += bytes * (beyond_near - far);
  near[2] += bytes * far;
}

}  // namespace

ReuseOctaves OctavesOf(const model::Kernel& k, double unknown_mib) {
  return {Octaves(k.reuse.activations, unknown_mib), Octaves(k.reuse.weights, unknown_mib),
          Octaves(k.reuse.output, unknown_mib)};
}

CpuTraffic::Bytes CpuTraffic::BytesOf(const model::Kernel& k, const ReuseOctaves& octaves) {
  Bytes bytes{};
  Spread(static_cast<double>(k.bytes_activations), octaves.activations, &bytes[0]);
  Spread(static_cast<double>(k.bytes_weights), octaves.weights, &bytes[0]);
  Spread(static_cast<double>(k.bytes_written), octaves.output, &bytes[3]);
  return bytes;
}

CpuTraffic::CpuTraffic() {
  for (size_t i = 0; i < us_per_byte_.size(); ++i) us_per_byte_[i] = 1e-3 / kGigabytesPerSecond[i];
}

CpuTraffic::CpuTraffic(std::span<const std::pair<Bytes, double>> measured) : CpuTraffic() {
  if (measured.empty()) return;
  // In units of the prior's prices: find x >= 0 with sum_j a_j x_j = 1 for every kernel, x near 1.
  const auto prior = us_per_byte_;
  std::vector<std::array<double, 6>> rows;
  for (const auto& [bytes, us] : measured) {
    auto& row = rows.emplace_back();
    for (size_t j = 0; j < 6; ++j) row[j] = bytes[j] * prior[j] / us;
  }
  std::array<double, 6> x;
  x.fill(1);
  for (int round = 0; round < kReweighted; ++round) {
    std::array<std::array<double, 6>, 6> normal{};
    std::array<double, 6> right;
    right.fill(kPrior);
    for (size_t j = 0; j < 6; ++j) normal[j][j] = kPrior;
    for (const auto& row : rows) {
      double off = -1;
      for (size_t j = 0; j < 6; ++j) off += row[j] * x[j];
      const double weight = round == 0 ? 1 : 1 / (std::abs(off) + kMiss);
      for (size_t j = 0; j < 6; ++j) {
        right[j] += weight * row[j];
        for (size_t k = 0; k < 6; ++k) normal[j][k] += weight * row[j] * row[k];
      }
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (size_t j = 0; j < 6; ++j) {
        double rest = right[j];
        for (size_t k = 0; k < 6; ++k) rest -= k == j ? 0 : normal[j][k] * x[k];
        x[j] = std::max(rest / normal[j][j], 0.0);
      }
    }
  }
  for (size_t j = 0; j < 6; ++j) us_per_byte_[j] = prior[j] * x[j];
}

double CpuTraffic::Us(const Bytes& bytes) const {
  double us = 0;
  for (size_t j = 0; j < 6; ++j) us += bytes[j] * us_per_byte_[j];
  return us;
}

}  // namespace hase::latency

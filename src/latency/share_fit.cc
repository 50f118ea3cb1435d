#include "latency/share_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace hase::latency {
namespace {

constexpr int kParameters = 8;
constexpr double kNoise = 0.05;  // log scale: repeatability of one profile point
constexpr int kIterations = 60;
using Vector = std::array<double, kParameters>;

Correction FromLogs(const Vector& x, const CorrectionPrior& prior) {
  Correction c;
  c.compute = std::exp(x[0] * prior.compute);
  c.fixed = std::exp(x[1] * prior.fixed);
  c.dram = std::exp(x[2] * prior.dram);
  c.launch = std::exp(x[3] * prior.launch);
  c.serial_per_item_s = prior.serial_per_item_s * std::exp(x[4] * prior.serial);
  c.law = prior.law;
  c.law.overlap = std::max(1.0, prior.law.overlap * std::exp(x[5] * prior.overlap));
  c.law.scaling = prior.law.scaling * std::exp(x[6] * prior.scaling);
  c.law.crowding = prior.law.crowding * std::exp(x[7] * prior.crowding);
  return c;
}

// Residuals of the points, each in units of the noise.
std::vector<double> Residuals(const Vector& x, const TermCurve& base, int sm_count,
                              std::span<const SurfacePoint> points, const CorrectionPrior& prior) {
  const Correction c = FromLogs(x, prior);
  std::vector<double> r;
  for (const auto& p : points) {
    const double t = RunSeconds(c.Apply(base(p.batch), p.batch), c.law, sm_count, p.grant);
    r.push_back(std::log(std::max(1e-12, t) / p.seconds) / kNoise);
  }
  return r;
}

double Cost(const Vector& x, const std::vector<double>& residuals) {
  double sum = 0;
  for (const double r : residuals) sum += r * r;
  for (const double v : x) sum += v * v;  // the prior: x is in its standard deviations
  return sum;
}

// Solves a x = b by elimination, in place (b becomes x); false if singular.
bool Solve(std::span<std::vector<double>> a, std::span<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t j = i + 1; j < n; ++j)
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    if (std::abs(a[i][i]) < 1e-12) return false;
    for (size_t j = i + 1; j < n; ++j) {
      const double f = a[j][i] / a[i][i];
      for (size_t k = i; k < n; ++k) a[j][k] -= f * a[i][k];
      b[j] -= f * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return true;
}

struct Descent {
  Vector x{};
  double cost = 0;
};

Descent Descend(Vector x, const std::function<std::vector<double>(const Vector&)>& residuals) {
  std::vector<double> r = residuals(x);
  double cost = Cost(x, r), damping = 1e-2;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<std::vector<double>> jacobian;
    for (int k = 0; k < kParameters; ++k) {
      Vector moved = x;
      moved[k] += 1e-4;
      auto column = residuals(moved);
      for (size_t i = 0; i < r.size(); ++i) column[i] = (column[i] - r[i]) / 1e-4;
      jacobian.push_back(std::move(column));
    }
    std::vector<std::vector<double>> a(kParameters, std::vector<double>(kParameters, 0.0));
    Vector b{};
    for (int i = 0; i < kParameters; ++i) {
      for (int j = 0; j < kParameters; ++j)
        for (size_t n = 0; n < r.size(); ++n) a[i][j] += jacobian[i][n] * jacobian[j][n];
      for (size_t n = 0; n < r.size(); ++n) b[i] -= jacobian[i][n] * r[n];
      b[i] -= x[i];
      a[i][i] += 1;
      a[i][i] *= 1 + damping;
    }
    if (!Solve(a, b)) break;
    Vector next = x;
    for (int k = 0; k < kParameters; ++k) next[k] += std::clamp(b[k], -2.0, 2.0);
    auto next_r = residuals(next);
    const double next_cost = Cost(next, next_r);
    if (next_cost < cost) {
      const bool done = cost - next_cost < 1e-9 * cost;
      x = next;
      r = std::move(next_r);
      cost = next_cost;
      damping = std::max(1e-6, damping / 3);
      if (done) break;
    } else if ((damping *= 4) > 1e8) {
      break;
    }
  }
  return {x, cost};
}

double BatchCloseness(double log_batch, double other) {
  constexpr double kReach = 1.5;
  const double d = (log_batch - other) / kReach;
  return std::exp(-0.5 * d * d);
}

// Weights of a Gaussian process of deviation kSpread through what is left at the points.
std::vector<Correction::Near> SpreadAround(std::span<const SurfacePoint> points,
                                           std::span<const double> left) {
  constexpr double kSpread = 0.08, kPointNoise = 0.02;
  const size_t n = points.size();
  std::vector<Correction::Near> near(n);
  for (size_t i = 0; i < n; ++i)
    near[i] = {std::log(static_cast<double>(points[i].batch)),
               {std::log(std::max(1e-3, ToFraction(points[i].grant.share))),
                points[i].grant.processes, 0}};
  std::vector<std::vector<double>> covariance(n, std::vector<double>(n, 0.0));
  std::vector<double> weights(left.begin(), left.end());
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j)
      covariance[i][j] =
          kSpread * kSpread * BatchCloseness(near[i].log_batch, near[j].log_batch) *
          ShareCloseness(near[i].point.log_share, near[i].point.processes, near[j].point);
    covariance[i][i] += kPointNoise * kPointNoise;
  }
  if (!Solve(covariance, weights)) return {};
  for (size_t i = 0; i < n; ++i) near[i].point.weight = kSpread * kSpread * weights[i];
  return near;
}

}  // namespace

ServiceTerms Correction::Apply(ServiceTerms terms, int64_t batch) const {
  terms.compute_s *= compute;
  terms.fixed_s *= fixed;
  terms.dram_s *= dram;
  terms.launch_s *= launch;
  terms.serial_s += serial_per_item_s * static_cast<double>(batch);
  const double log_batch = std::log(static_cast<double>(batch));
  for (const Near& n : near) {
    terms.near.push_back(n.point);
    terms.near.back().weight *= BatchCloseness(log_batch, n.log_batch);
  }
  return terms;
}

Correction FitCorrection(const TermCurve& base, int sm_count, std::span<const SurfacePoint> points,
                         const CorrectionPrior& prior) {
  if (points.empty()) {
    Correction none;
    none.law = prior.law;
    return none;
  }
  const auto residuals = [&](const Vector& x) {
    return Residuals(x, base, sm_count, points, prior);
  };
  // Two starts: per-item serial work is either nothing or much, and the way between is flat.
  Descent best = Descend({}, residuals);
  Vector serial{};
  serial[4] = 2;
  if (const Descent other = Descend(serial, residuals); other.cost < best.cost) best = other;
  Correction c = FromLogs(best.x, prior);
  c.points = static_cast<int>(points.size());
  std::vector<double> left = residuals(best.x);
  double sum = 0;
  for (double& r : left) {
    sum += r * r * kNoise * kNoise;
    r *= -kNoise;  // measured against foretold
  }
  c.residual = std::sqrt(sum / static_cast<double>(points.size()));
  c.near = SpreadAround(points, left);
  return c;
}

ServiceTerms UnknownModel(int64_t batch) {
  const double items = static_cast<double>(batch);
  ServiceTerms t;
  t.compute_s = 0.3e-3 * items;
  t.fixed_s = 0.3e-3;
  t.dram_s = 0.1e-3 * items;
  t.launch_s = 5e-3;
  return t;
}

CorrectionPrior UnknownModelPrior() {
  CorrectionPrior prior;
  prior.compute = prior.fixed = prior.dram = 1.5;
  prior.launch = 0.7;
  prior.serial_per_item_s = 1e-5;
  prior.overlap = 0.3;
  prior.law.overlap = 5;
  prior.law.scaling = 0.95;
  prior.law.crowding = 0.05;
  return prior;
}

}  // namespace hase::latency

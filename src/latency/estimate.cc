#include "latency/estimate.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace hase::latency {
namespace {

// Acklam's rational approximation of the normal quantile with one Newton step; error < 1e-12.
double NormalQuantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01, -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00};
  double x = 0;
  if (p < 0.02425 || p > 1 - 0.02425) {
    const double q = std::sqrt(-2 * std::log(p < 0.5 ? p : 1 - p));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
        ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    if (p > 0.5) x = -x;
  } else {
    const double q = p - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
  return x - error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
}

// Log-scale deviation of a log-normal with these moments.
double LogSigma(const Spread& s) {
  if (s.mean_s <= 0 || s.variance_s2 <= 0) return 0;
  return std::sqrt(std::log1p(s.variance_s2 / (s.mean_s * s.mean_s)));
}

}  // namespace

double Spread::Quantile(double p) const {
  HASE_CHECK(p > 0 && p < 1, "quantile {}", p);
  const double sigma = LogSigma(*this);
  if (sigma == 0) return mean_s;
  return mean_s * std::exp(sigma * NormalQuantile(p) - sigma * sigma / 2);
}

double Spread::Cdf(double t_s) const {
  const double sigma = LogSigma(*this);
  if (sigma == 0) return t_s >= mean_s ? 1 : 0;
  if (t_s <= 0) return 0;
  const double mu = std::log(mean_s) - sigma * sigma / 2;
  return 0.5 * std::erfc(-(std::log(t_s) - mu) / (sigma * std::numbers::sqrt2));
}

Spread operator+(const Spread& a, const Spread& b) {
  return {a.mean_s + b.mean_s, a.variance_s2 + b.variance_s2};
}

Spread Estimate::Runs(double runs) const {
  // latency_s is the median; both parts are log-normal.
  const double s2 = shared_sigma * shared_sigma, i2 = independent_sigma * independent_sigma;
  const double mean = latency_s * std::exp((s2 + i2) / 2);
  const double total = mean * runs;
  return {total, total * total * std::expm1(s2) + runs * mean * mean * std::expm1(i2)};
}

Spread Estimate::Job(double runs, bool cold) const {
  Spread sum = Runs(runs);
  if (!cold) return sum;
  const double mean = load_s * std::exp(load_sigma * load_sigma / 2);
  return sum + Spread{mean, mean * mean * std::expm1(load_sigma * load_sigma)};
}

double Estimate::QuantileOfOne(double p) const { return Runs(1).Quantile(p); }

}  // namespace hase::latency

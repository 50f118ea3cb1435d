#include "placement/services/queueing.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace hase::placement {
namespace {

constexpr std::array<double, 12> kRho = {0.02, 0.1, 0.2,  0.3, 0.4,  0.5,
                                         0.6,  0.7, 0.75, 0.8, 0.85, 0.92};
constexpr int kFixedSteps = 8;
constexpr int kMoments = 6;  // instants within a run at which arrivals are looked at
constexpr double kBinsPerRun = 50;

struct Poisson {
  size_t first = 0;
  std::vector<double> mass;
};

Poisson PoissonLaw(double mean) {
  const double reach = 5 * std::sqrt(mean) + 5;
  const size_t mode = static_cast<size_t>(mean);
  Poisson law;
  law.first = static_cast<size_t>(std::max(0.0, std::floor(mean - reach)));
  law.mass.resize(static_cast<size_t>(std::ceil(mean + reach)) - law.first + 1);
  // Relative to the mode, outwards: no factorials.
  law.mass[mode - law.first] = 1;
  for (size_t k = mode; k > law.first; --k)
    law.mass[k - 1 - law.first] = law.mass[k - law.first] * static_cast<double>(k) / mean;
  for (size_t k = mode + 1; k < law.first + law.mass.size(); ++k)
    law.mass[k - law.first] = law.mass[k - 1 - law.first] * mean / static_cast<double>(k);
  double sum = 0;
  for (const double m : law.mass) sum += m;
  for (double& m : law.mass) m /= sum;
  return law;
}

struct Chain {
  size_t batch;
  double fixed, rate;  // arrivals per D(b)
  double Run(size_t items) const {
    return fixed + (1 - fixed) * static_cast<double>(items) / static_cast<double>(batch);
  }
};

// Law of the number waiting at the end of a run.
std::vector<double> Stationary(const Chain& chain) {
  const size_t b = chain.batch, states = 5 * b + 40;
  std::vector<Poisson> arrivals(b + 1);
  for (size_t n = 1; n <= b; ++n) arrivals[n] = PoissonLaw(chain.rate * chain.Run(n));
  std::vector<double> now(states, 0.0), next(states);
  now[0] = 1;
  for (int iteration = 0; iteration < 300; ++iteration) {
    std::fill(next.begin(), next.end(), 0.0);
    for (size_t q = 0; q < states; ++q) {
      if (now[q] < 1e-12) continue;
      const size_t n = std::clamp<size_t>(q, 1, b), left = q > b ? q - b : 0;
      const Poisson& law = arrivals[n];
      for (size_t k = 0; k < law.mass.size(); ++k)
        next[std::min(states - 1, left + law.first + k)] += now[q] * law.mass[k];
    }
    double change = 0;
    for (size_t q = 0; q < states; ++q) change += std::abs(next[q] - now[q]);
    std::swap(now, next);
    if (change < 1e-6) break;
  }
  return now;
}

class Histogram {
 public:
  void Add(double value, double weight) {
    const size_t bin = static_cast<size_t>(value * kBinsPerRun);
    if (bin >= bins_.size()) bins_.resize(bin + 1, 0.0);
    bins_[bin] += weight;
    total_ += weight;
  }
  double Quantile(double p) const {
    double sum = 0;
    for (size_t i = 0; i < bins_.size(); ++i) {
      const double before = sum;
      sum += bins_[i];
      if (sum >= p * total_) {
        const double part = bins_[i] > 0 ? (p * total_ - before) / bins_[i] : 1;
        return (static_cast<double>(i) + part) / kBinsPerRun;
      }
    }
    return static_cast<double>(bins_.size()) / kBinsPerRun;
  }

 private:
  std::vector<double> bins_;
  double total_ = 0;
};

}  // namespace

double BatchServerResponse(int64_t batch, double fixed, double rho, double percentile) {
  const Chain chain{static_cast<size_t>(batch), fixed, rho * static_cast<double>(batch)};
  const auto waiting = Stationary(chain);
  const size_t b = chain.batch;
  // Arrived so far at each instant looked at, by the size of the batch that runs.
  std::vector<std::array<Poisson, kMoments>> arrived(b + 1);
  for (size_t n = 1; n <= b; ++n)
    for (int m = 0; m < kMoments; ++m)
      arrived[n][m] = PoissonLaw(chain.rate * chain.Run(n) * (m + 0.5) / kMoments);
  Histogram response;
  response.Add(chain.Run(1), waiting[0]);  // came to an idle server
  for (size_t q = 0; q < waiting.size(); ++q) {
    if (waiting[q] < 1e-7) continue;
    const size_t n = std::clamp<size_t>(q, 1, b), left = q > b ? q - b : 0;
    const double run = chain.Run(n), weight = waiting[q] * chain.rate * run / kMoments;
    for (int m = 0; m < kMoments; ++m) {
      const double rest = run * (1 - (m + 0.5) / kMoments);
      const Poisson& law = arrived[n][m];
      for (size_t k = 0; k < law.mass.size(); ++k) {
        const size_t before = left + law.first + k;
        const size_t full = before / b;  // whole batches that go first
        const double wait = rest + static_cast<double>(full);
        // Those who come until it starts join its batch: Poisson, by three points of its law.
        const double later = chain.rate * wait, spread = std::sqrt(3 * later);
        const double own = static_cast<double>(before - full * b) + 1 + later;
        for (const auto& [shift, part] :
             {std::pair{-spread, 1 / 6.0}, {0.0, 4 / 6.0}, {spread, 1 / 6.0}}) {
          const size_t items =
              static_cast<size_t>(std::clamp(std::round(own + shift), 1.0, static_cast<double>(b)));
          response.Add(wait + chain.Run(items), weight * part * law.mass[k]);
        }
      }
    }
  }
  return response.Quantile(percentile);
}

const std::vector<double>& BatchQueue::Curve(int64_t batch, int fixed_step) const {
  // One memory for all: the curves are pure mathematics.
  thread_local std::map<std::tuple<double, int64_t, int>, std::vector<double>> curves;
  auto& curve = curves[{percentile_, batch, fixed_step}];
  if (curve.empty()) {
    double last = 0;
    for (const double rho : kRho) {
      last =
          std::max(last, BatchServerResponse(batch, static_cast<double>(fixed_step) / kFixedSteps,
                                             rho, percentile_));
      curve.push_back(last);
    }
  }
  return curve;
}

double BatchQueue::Response(const BatchServer& server, double rho) const {
  const double position = std::clamp(server.fixed, 0.0, 1.0) * kFixedSteps;
  const int lower = std::min(kFixedSteps - 1, static_cast<int>(position));
  const double part = position - lower;
  const auto& a = Curve(server.batch, lower);
  const auto& b = Curve(server.batch, lower + 1);
  size_t i = 1;
  while (i + 1 < kRho.size() && kRho[i] < rho) ++i;
  const double along =
      (std::clamp(rho, kRho.front(), kRho.back()) - kRho[i - 1]) / (kRho[i] - kRho[i - 1]);
  const auto at = [&](const std::vector<double>& c) {
    return c[i - 1] + along * (c[i] - c[i - 1]);
  };
  return at(a) * (1 - part) + at(b) * part;
}

double BatchQueue::ResponseSeconds(const BatchServer& server, double rate_rps) const {
  const double rho = rate_rps * server.run_s / static_cast<double>(server.batch);
  return server.run_s * Response(server, rho);
}

double BatchQueue::SustainableRate(const BatchServer& server, double slo_s) const {
  const double limit = slo_s / server.run_s;
  const double capacity = static_cast<double>(server.batch) / server.run_s;
  const double position = std::clamp(server.fixed, 0.0, 1.0) * kFixedSteps;
  const int lower = std::min(kFixedSteps - 1, static_cast<int>(position));
  const double part = position - lower;
  const auto& a = Curve(server.batch, lower);
  const auto& b = Curve(server.batch, lower + 1);
  double last = 0;
  for (size_t i = 0; i < kRho.size(); ++i) {
    const double r = a[i] * (1 - part) + b[i] * part;
    if (r > limit) {
      if (i == 0) return 0;
      const double along = (limit - last) / std::max(1e-12, r - last);
      return capacity * std::min(kMaxUtilisation, kRho[i - 1] + along * (kRho[i] - kRho[i - 1]));
    }
    last = r;
    if (kRho[i] >= kMaxUtilisation) break;
  }
  return capacity * kMaxUtilisation;
}

double BatchQueue::MeanBatch(const BatchServer& server, double rate_rps) {
  // n = λ·D(n), at least one, at most the batch.
  const double b = static_cast<double>(server.batch);
  const double slope = rate_rps * server.run_s * (1 - server.fixed) / b;
  if (slope >= 1) return b;
  return std::clamp(rate_rps * server.run_s * server.fixed / (1 - slope), 1.0, b);
}

double BatchQueue::BusyFraction(const BatchServer& server, double rate_rps) {
  const double n = MeanBatch(server, rate_rps);
  const double run =
      server.run_s * (server.fixed + (1 - server.fixed) * n / static_cast<double>(server.batch));
  return std::min(1.0, rate_rps * run / n);
}

}  // namespace hase::placement

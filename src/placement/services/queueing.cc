#include "placement/services/queueing.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace hase::placement {
namespace {

constexpr std::array<double, kLoads> kRho = {0.02, 0.05, 0.1, 0.15, 0.2, 0.3,  0.4,
                                             0.5,  0.6,  0.7, 0.75, 0.8, 0.85, 0.92};
// Percentiles kept of every law; others are interpolated in log(1 - p).
constexpr std::array<double, 8> kPercentiles = {0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999};
constexpr int kFirstSteps = 7;  // f = 1, 1/2, 1/4 …: halvings
constexpr std::array<double, 3> kBends = {0.5, 0.75, 1.0};
constexpr int kMoments = 6;  // instants within a run at which arrivals are looked at
constexpr double kBinsPerRun = 50;
// How what chance adds to a response shrinks with the squared variation of the gaps (fitted to the
// simulated queue, serving_test): in proportion for single items, as its root for batches.
double EvenExponent(int64_t batch) { return 0.5 + 0.6 / static_cast<double>(batch); }

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
  double rate;              // arrivals per D(b)
  std::vector<double> run;  // by items
  double Run(size_t items) const { return run[items]; }
};

Chain ChainOf(const BatchServer& server, double rho) {
  Chain chain{static_cast<size_t>(server.batch), rho * static_cast<double>(server.batch), {0.0}};
  for (int64_t n = 1; n <= server.batch; ++n)
    chain.run.push_back(server.Run(static_cast<double>(n)));
  return chain;
}

// Law of the number waiting at the end of a run; `start` is a guess (empty: none) and becomes it.
void Stationary(const Chain& chain, std::vector<double>& start) {
  const size_t b = chain.batch, states = 5 * b + 40;
  std::vector<Poisson> arrivals(b + 1);
  for (size_t n = 1; n <= b; ++n) arrivals[n] = PoissonLaw(chain.rate * chain.Run(n));
  std::vector<double> now = std::move(start), next(states);
  if (now.size() != states) {
    now.assign(states, 0.0);
    now[0] = 1;
  }
  for (int iteration = 0; iteration < 300; ++iteration) {
    std::fill(next.begin(), next.end(), 0.0);
    for (size_t q = 0; q < states; ++q) {
      if (now[q] < 1e-10) continue;
      const size_t n = std::clamp<size_t>(q, 1, b), left = q > b ? q - b : 0;
      const Poisson& law = arrivals[n];
      for (size_t k = 0; k < law.mass.size(); ++k)
        next[std::min(states - 1, left + law.first + k)] += now[q] * law.mass[k];
    }
    double change = 0;
    for (size_t q = 0; q < states; ++q) change += std::abs(next[q] - now[q]);
    std::swap(now, next);
    if (change < 3e-6) break;
  }
  start = std::move(now);
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

// Law of wait plus run; `waiting` as in Stationary.
Histogram ResponseLaw(const BatchServer& server, double rho, std::vector<double>& waiting) {
  const Chain chain = ChainOf(server, rho);
  Stationary(chain, waiting);
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
        const double mass = weight * law.mass[k];
        if (mass < 1e-8) continue;
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
          response.Add(wait + chain.Run(items), part * mass);
        }
      }
    }
  }
  return response;
}

// By percentile of kPercentiles and load of kRho. One memory for all: pure mathematics.
using Law = std::array<std::vector<double>, kPercentiles.size()>;
const Law& LawOf(int64_t batch, int first_step, int bend_step) {
  thread_local std::map<std::tuple<int64_t, int, int>, Law> laws;
  Law& law = laws[{batch, first_step, bend_step}];
  if (!law[0].empty()) return law;
  const BatchServer server{1, std::exp2(-first_step), batch,
                           kBends[static_cast<size_t>(bend_step)]};
  std::vector<double> waiting;
  for (const double rho : kRho) {
    const auto response = ResponseLaw(server, rho, waiting);
    for (size_t k = 0; k < kPercentiles.size(); ++k) {
      const double q = response.Quantile(kPercentiles[k]);
      law[k].push_back(law[k].empty() ? q : std::max(law[k].back(), q));
    }
  }
  return law;
}

}  // namespace

double BatchServer::Run(double items) const {
  if (batch <= 1 || first >= 1) return 1;
  const double along = std::clamp((items - 1) / static_cast<double>(batch - 1), 0.0, 1.0);
  return first + (1 - first) * (bend == 1 ? along : std::pow(along, bend));
}

double BendOf(std::span<const std::pair<int64_t, double>> runs, int64_t batch, double run_s,
              double first) {
  // Mean of the exponents that each run asks for, those in the middle counting most.
  double sum = 0, weight = 0;
  for (const auto& [items, seconds] : runs) {
    if (items <= 1 || items >= batch || first >= 0.999) continue;
    const double along = static_cast<double>(items - 1) / static_cast<double>(batch - 1);
    const double part = std::clamp((seconds / run_s - first) / (1 - first), 1e-3, 1.0);
    const double w = along * (1 - along);
    sum += w * std::log(part) / std::log(along);
    weight += w;
  }
  return weight > 0 ? std::clamp(sum / weight, kBends.front(), kBends.back()) : 1;
}

double BatchServerResponse(const BatchServer& server, double rho, double percentile) {
  std::vector<double> waiting;
  return ResponseLaw(server, rho, waiting).Quantile(percentile);
}

const ResponseCurve& BatchQueue::Corner(int64_t batch, int first_step, int bend_step) const {
  const auto [found, fresh] = curves_.try_emplace({batch, first_step, bend_step});
  ResponseCurve& curve = found->second;
  if (!fresh) return curve;
  const Law& law = LawOf(batch, first_step, bend_step);
  size_t k = 1;
  while (k + 1 < kPercentiles.size() && kPercentiles[k] < percentile_) ++k;
  const double low = std::log(1 - kPercentiles[k - 1]), high = std::log(1 - kPercentiles[k]);
  const double along =
      std::max(0.0, (std::log(1 - std::min(percentile_, 0.9999)) - low) / (high - low));
  for (size_t i = 0; i < kRho.size(); ++i)
    curve[i] = law[k - 1][i] + along * (law[k][i] - law[k - 1][i]);
  return curve;
}

ResponseCurve BatchQueue::CurveOf(const BatchServer& server) const {
  // Between two halvings a response is nearly linear in f.
  const double first = std::clamp(server.first, std::exp2(-kFirstSteps), 1.0);
  const int lower = std::min(kFirstSteps - 1, static_cast<int>(-std::log2(first)));
  const double part = 2 - first * std::exp2(lower + 1);
  int bend = 1;
  if (server.batch <= 2 || server.bend > kBends[1]) bend = 2;
  const double along =
      std::clamp((server.bend - kBends[bend - 1]) / (kBends[bend] - kBends[bend - 1]), 0.0, 1.0);
  ResponseCurve curve{};
  // Corners of no weight are not computed.
  const std::tuple<int, int, double> corners[] = {{lower, bend - 1, (1 - part) * (1 - along)},
                                                  {lower + 1, bend - 1, part * (1 - along)},
                                                  {lower, bend, (1 - part) * along},
                                                  {lower + 1, bend, part * along}};
  for (const auto& [first_step, bend_step, weight] : corners) {
    if (weight <= 1e-9) continue;
    const ResponseCurve& corner = Corner(server.batch, first_step, bend_step);
    for (size_t i = 0; i < kLoads; ++i) curve[i] += weight * corner[i];
  }
  return curve;
}

double MixtureResponseSeconds(std::span<const QueuePart> parts, double percentile) {
  // Each part's quantiles at the kept percentiles; its law is a straight line in log(1 - p)
  // between.
  std::vector<std::array<double, kPercentiles.size()>> quantiles(parts.size());
  double total = 0, high = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    total += parts[i].rate_rps;
    for (size_t k = 0; k < kPercentiles.size(); ++k)
      quantiles[i][k] =
          BatchQueue(kPercentiles[k]).ResponseSeconds(parts[i].server, parts[i].rate_rps);
    high = std::max(high, quantiles[i].back() * 2);
  }
  if (total <= 0) return 0;
  const auto tail = [&](double t) {  // fraction of requests that take longer
    double sum = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& q = quantiles[i];
      if (t <= q.front()) {
        sum += parts[i].rate_rps * (1 - 0.5 * t / std::max(1e-12, q.front()));
        continue;
      }
      size_t k = 1;
      while (k + 1 < q.size() && q[k] < t) ++k;
      const double along = (t - q[k - 1]) / std::max(1e-12, q[k] - q[k - 1]);
      const double a = std::log(1 - kPercentiles[k - 1]), b = std::log(1 - kPercentiles[k]);
      sum += parts[i].rate_rps * std::exp(a + along * (b - a));
    }
    return sum / total;
  };
  double low = 0;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (tail(middle) > 1 - percentile ? low : high) = middle;
  }
  return high;
}

double BatchQueue::Response(const BatchServer& server, double rho) const {
  const ResponseCurve curve = CurveOf(server);
  size_t i = 1;
  while (i + 1 < kRho.size() && kRho[i] < rho) ++i;
  const double along =
      (std::clamp(rho, kRho.front(), kRho.back()) - kRho[i - 1]) / (kRho[i] - kRho[i - 1]);
  const double low = curve[i - 1], random = low + along * (curve[i] - low);
  if (server.evenness >= 1) return random;
  // Arrivals like a clock: runs of n* = λ·D(n*), and the percentile of those who just missed one.
  const double n = MeanBatch({1, server.first, server.batch, server.bend},
                             rho * static_cast<double>(server.batch));
  const double clocked = (1 + (n > 1 ? percentile_ : 0)) * server.Run(n);
  if (clocked >= random) return random;
  return clocked + (random - clocked) * std::pow(server.evenness, EvenExponent(server.batch));
}

double BatchQueue::ResponseSeconds(const BatchServer& server, double rate_rps) const {
  const double rho = rate_rps * server.run_s / static_cast<double>(server.batch);
  return server.run_s * Response(server, rho);
}

double BatchQueue::SustainableRate(const ResponseCurve& curve, const BatchServer& server,
                                   double slo_s) {
  const double limit = slo_s / server.run_s;
  const double capacity = static_cast<double>(server.batch) / server.run_s;
  double last = 0;
  for (size_t i = 0; i < kRho.size(); ++i) {
    const double r = curve[i];
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
  // n = λ·D(n), at least one, at most the batch: D is concave, so this closes in from above.
  double n = static_cast<double>(server.batch);
  for (int step = 0; step < 12; ++step) {
    const double next =
        std::clamp(rate_rps * server.run_s * server.Run(n), 1.0, static_cast<double>(server.batch));
    if (n - next < 1e-3 * n) return next;
    n = next;
  }
  return n;
}

double BatchQueue::BusyFraction(const BatchServer& server, double rate_rps) {
  // Even a lone item takes as long as the next one takes to come: never idle.
  if (rate_rps * server.run_s * server.Run(1) >= 1) return 1;
  const double n = MeanBatch(server, rate_rps);
  return std::min(1.0, rate_rps * server.run_s * server.Run(n) / n);
}

}  // namespace hase::placement

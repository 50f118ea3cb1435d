#include "latency/pair_model.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/rng.h"
#include "latency/solve.h"

namespace hase::latency {
namespace {

constexpr double kRidge = 0.03;         // on the numbers that multiply
constexpr double kOffsetRidge = 0.003;  // on sensitivity and pressure
constexpr double kRobustScale = 0.05;
constexpr int kRounds = 20;

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Partner {
  const std::vector<double>* its;
  double y;  // log slowdown less the mean
};

// One job's descriptor, its partners' held still.
void Refit(std::vector<double>& own, std::span<const Partner> partners) {
  const size_t n = own.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n, 0));
  std::vector<double> b(n, 0), z(n, 1);
  for (const Partner& p : partners) {
    for (size_t i = 1; i < n; ++i) z[i] = (*p.its)[i];
    const double y = p.y - (*p.its)[0];
    const double weight = 1 / std::sqrt(1 + std::pow((y - Dot(own, z)) / kRobustScale, 2));
    for (size_t i = 0; i < n; ++i) {
      b[i] += weight * z[i] * y;
      for (size_t j = 0; j <= i; ++j) a[i][j] += weight * z[i] * z[j];
    }
  }
  for (size_t i = 0; i < n; ++i) a[i][i] += i == 0 ? kOffsetRidge : kRidge;
  SolvePositive(a, b);
  own = b;
}

double Ape(double predicted, double measured) {  // of throughputs
  return std::abs(measured / predicted - 1);
}

}  // namespace

int PairFold(std::string_view card, std::string_view a, std::string_view b) {
  const auto [first, second] = std::minmax(a, b);
  std::string key(card);
  key.append("|").append(first).append("|").append(second);
  return static_cast<int>(Fnv1a64(key) % 5);
}

PairModel PairModel::FitWithRank(std::span<const PairObservation> pairs, int rank) {
  PairModel model;
  model.rank_ = rank;
  if (pairs.empty()) return model;
  std::vector<double> logs;
  for (const auto& p : pairs) logs.push_back(std::log(p.slowdown));
  std::ranges::nth_element(logs, logs.begin() + static_cast<int64_t>(logs.size() / 2));
  model.mean_ = logs[logs.size() / 2];
  Rng rng = Rng(1).Split("pair descriptors");
  for (const auto& p : pairs) model.sensitive_[p.job], model.sensitive_[p.beside];
  for (auto& [job, own] : model.sensitive_) {
    auto& pressing = model.pressing_[job];
    own.assign(static_cast<size_t>(rank) + 1, 0);
    pressing = own;
    for (size_t i = 1; i < own.size(); ++i) {
      own[i] = 0.1 * rng.Normal();
      pressing[i] = 0.1 * rng.Normal();
    }
  }
  std::map<std::string, std::vector<Partner>> of_job, of_beside;
  for (const auto& p : pairs) {
    const double y = std::log(p.slowdown) - model.mean_;
    of_job[p.job].push_back({&model.pressing_[p.beside], y});
    of_beside[p.beside].push_back({&model.sensitive_[p.job], y});
  }
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [job, partners] : of_job) Refit(model.sensitive_[job], partners);
    for (auto& [job, partners] : of_beside) Refit(model.pressing_[job], partners);
  }
  return model;
}

PairModel PairModel::Fit(std::span<const PairObservation> pairs) {
  int best = 0;
  double least = 0;
  for (int rank = 0; rank <= kGreatestRank; ++rank) {
    double error = 0;
    for (int fold = 0; fold < 5; ++fold) {
      std::vector<PairObservation> kept, out;
      // Other folds than those that callers hold out: a pair's name alone decides.
      for (const auto& p : pairs) {
        (PairFold("inside", p.job, p.beside) == fold ? out : kept).push_back(p);
      }
      const auto model = FitWithRank(kept, rank);
      for (const auto& p : out) error += Ape(model.Slowdown(p.job, p.beside), p.slowdown);
    }
    if (rank == 0 || error < least) {
      least = error;
      best = rank;
    }
  }
  return FitWithRank(pairs, best);
}

double PairModel::Slowdown(const std::string& job, const std::string& beside) const {
  const auto own = sensitive_.find(job);
  const auto its = pressing_.find(beside);
  double y = mean_;
  if (own != sensitive_.end()) y += own->second[0];
  if (its != pressing_.end()) y += its->second[0];
  if (own != sensitive_.end() && its != pressing_.end()) {
    y += Dot(std::span(own->second).subspan(1), std::span(its->second).subspan(1));
  }
  return std::max(1.0, std::exp(y));
}

}  // namespace hase::latency

#include "world/arrivals.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/csv.h"
#include "base/file.h"

namespace hase::world {
namespace {

constexpr double kBurstFactor = 3, kBurstFraction = 0.1, kBurstSeconds = 2;

double RateAt(std::span<const workload::RatePoint> rate, double t) {
  double r = rate.front().rate_rps;
  for (const auto& point : rate) {
    if (ToSeconds(point.time) > t) break;
    r = point.rate_rps;
  }
  return r;
}

double Greatest(std::span<const workload::RatePoint> rate) {
  double r = 0;
  for (const auto& point : rate) r = std::max(r, point.rate_rps);
  return r;
}

// Bursts as [start, end) intervals, exponential in length and distance.
std::vector<std::pair<double, double>> Bursts(double duration_s, Rng& rng) {
  std::vector<std::pair<double, double>> bursts;
  const double gap = kBurstSeconds * (1 - kBurstFraction) / kBurstFraction;
  double t = rng.Exponential(1 / gap);
  while (t < duration_s) {
    const double end = t + rng.Exponential(1 / kBurstSeconds);
    bursts.emplace_back(t, end);
    t = end + rng.Exponential(1 / gap);
  }
  return bursts;
}

std::vector<double> FromTrace(std::span<const workload::RatePoint> rate, double duration_s,
                              Rng& rng, std::span<const double> trace) {
  std::vector<double> times;
  if (trace.size() < 2) return times;
  const double span = trace.back() - trace.front();
  const double trace_rate = static_cast<double>(trace.size() - 1) / span;
  size_t i = static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(trace.size()) - 2));
  double t = 0;
  while (true) {
    if (i + 1 >= trace.size()) i = 0;
    const double r = RateAt(rate, t);
    if (r <= 0) {
      t += 1;
      if (t >= duration_s) return times;
      continue;
    }
    t += (trace[i + 1] - trace[i]) * trace_rate / r;
    ++i;
    if (t >= duration_s) return times;
    times.push_back(t);
  }
}

}  // namespace

Result<ArrivalPattern> ParseArrivalPattern(std::string_view text) {
  if (text == "poisson") return ArrivalPattern::kPoisson;
  if (text == "bursty") return ArrivalPattern::kBursty;
  if (text == "diurnal") return ArrivalPattern::kDiurnal;
  if (text == "trace") return ArrivalPattern::kTrace;
  return Usage(fmt::format("unknown arrival pattern '{}' (poisson, bursty, diurnal, trace)", text));
}

std::vector<double> Arrivals(ArrivalPattern pattern, std::span<const workload::RatePoint> rate,
                             double duration_s, Rng rng, std::span<const double> trace) {
  if (pattern == ArrivalPattern::kTrace) return FromTrace(rate, duration_s, rng, trace);
  const double calm = 1 / (1 + kBurstFraction * (kBurstFactor - 1));
  const auto bursts = pattern == ArrivalPattern::kBursty ? Bursts(duration_s, rng)
                                                         : decltype(Bursts(duration_s, rng)){};
  const double swing = pattern == ArrivalPattern::kBursty    ? calm * kBurstFactor
                       : pattern == ArrivalPattern::kDiurnal ? 1.6
                                                             : 1.0;
  const double peak = Greatest(rate) * swing;
  std::vector<double> times;
  if (peak <= 0) return times;
  times.reserve(static_cast<size_t>(peak * duration_s / swing) + 16);
  size_t burst = 0;
  // Thinning: candidates at the peak rate, each kept with probability local / peak.
  for (double t = rng.Exponential(peak); t < duration_s; t += rng.Exponential(peak)) {
    double local = RateAt(rate, t);
    if (pattern == ArrivalPattern::kDiurnal) local *= 1 + 0.6 * std::sin(2 * M_PI * t / duration_s);
    if (pattern == ArrivalPattern::kBursty) {
      while (burst < bursts.size() && bursts[burst].second <= t) ++burst;
      const bool inside = burst < bursts.size() && bursts[burst].first <= t;
      local *= inside ? calm * kBurstFactor : calm;
    }
    if (local >= peak || rng.Uniform() * peak < local) times.push_back(t);
  }
  return times;
}

Result<std::vector<double>> ReadAzureTrace(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(path, text, {}, {"TIMESTAMP"}));
  std::vector<double> times;
  for (size_t i = 0; i < table.rows(); ++i) {
    int year, month, day, hour, minute;
    double second;
    const std::string stamp(table.Text(i, "TIMESTAMP"));
    if (std::sscanf(stamp.c_str(), "%d-%d-%d %d:%d:%lf", &year, &month, &day, &hour, &minute,
                    &second) != 6)
      return Invalid(fmt::format("{}: '{}' is not a time (YYYY-MM-DD HH:MM:SS.fffffff)",
                                 table.Where(i, "TIMESTAMP"), stamp));
    times.push_back(((day * 24.0 + hour) * 60 + minute) * 60 + second);
  }
  std::sort(times.begin(), times.end());
  const double first = times.empty() ? 0 : times.front();
  for (double& t : times) t -= first;
  return times;
}

}  // namespace hase::world

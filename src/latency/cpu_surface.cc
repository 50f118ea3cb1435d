#include "latency/cpu_surface.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/csv.h"

namespace hase::latency {
namespace {

using Row = std::array<double, 5>;

int Quarter(double share) { return std::clamp(static_cast<int>(std::lround(share * 4)), 1, 4) - 1; }

bool IsWholeAlone(const SurfaceRun& run) {
  return run.tenants.size() == 1 && run.tenants[0].share > 0.999;
}

// How much a row counts whose logarithm is off by `off`: readings that something else disturbed
// hardly do (Cauchy's weight).
double Weight(double off) {
  constexpr double kScale = 0.1;
  return 1 / (1 + off * off / (kScale * kScale));
}

// The model's times alone on all cores: a power law of the batch, near which a CPU keeps, through
// its readings.
class Bases {
 public:
  explicit Bases(const std::vector<SurfaceRun>& runs) {
    std::map<std::string, std::vector<std::pair<double, double>>> readings;
    for (const SurfaceRun& run : runs)
      if (IsWholeAlone(run))
        readings[run.tenants[0].model].emplace_back(
            std::log(static_cast<double>(run.tenants[0].batch)), std::log(run.tenants[0].p50_ms));
    for (const auto& [model, points] : readings) of_[model] = LawOf(points);
  }
  std::optional<double> Of(const std::string& model, int64_t batch) const {
    const auto found = of_.find(model);
    if (found == of_.end()) return std::nullopt;
    return std::exp(found->second.first +
                    found->second.second * std::log(static_cast<double>(batch)));
  }

 private:
  // (log time of one, exponent).
  static std::pair<double, double> LawOf(const std::vector<std::pair<double, double>>& points) {
    constexpr double kExponent = 0.97, kSpread = 0.06, kNoise = 0.05;
    double one = 0, exponent = kExponent;
    std::vector<double> ones;
    for (const auto& [x, y] : points) ones.push_back(y - exponent * x);
    std::sort(ones.begin(), ones.end());
    one = ones[(ones.size() - 1) / 2];  // disturbances only ever add
    for (int round = 0; round < 50; ++round) {
      double sum = 0, weight = 0;
      for (const auto& [x, y] : points) {
        const double w = Weight(y - one - exponent * x);
        sum += w * (y - exponent * x);
        weight += w;
      }
      one = sum / weight;
      double above = kExponent / (kSpread * kSpread), below = 1 / (kSpread * kSpread);
      for (const auto& [x, y] : points) {
        const double w = Weight(y - one - exponent * x) / (kNoise * kNoise);
        above += w * x * (y - one);
        below += w * x * x;
      }
      exponent = above / below;
    }
    return {one, exponent};
  }
  std::map<std::string, std::pair<double, double>> of_;
};

Row FeaturesOf(const SurfaceRun& run, size_t i, double base_ms) {
  constexpr double kMiddleMs = 20;
  double others = 0;
  for (size_t j = 0; j < run.tenants.size(); ++j)
    if (j != i) others += run.tenants[j].share;
  const double share = run.tenants[i].share;
  return {std::log(1 / share), share < 0.999 ? 1.0 : 0.0, others,
          static_cast<double>(run.tenants.size() - 1),
          std::log(1 / share) * std::log(base_ms / kMiddleMs)};
}

// Ridge least squares, reweighted, by coordinate descent: five parameters, small deviations of all
// but the first.
Row Fit(const std::vector<Row>& rows, const std::vector<double>& y) {
  constexpr Row kPrior = {1, 0, 0, 0, 0}, kSpread = {0.2, 0.2, 0.2, 0.1, 0.1};
  constexpr double kNoise = 0.08;
  Row x = kPrior;
  std::vector<double> weight(rows.size(), 1.0);
  for (int sweep = 0; sweep < 500; ++sweep) {
    if (sweep % 20 == 0 && sweep > 0)
      for (size_t n = 0; n < rows.size(); ++n) {
        double off = y[n];
        for (size_t j = 0; j < x.size(); ++j) off -= x[j] * rows[n][j];
        weight[n] = Weight(off);
      }
    for (size_t k = 0; k < x.size(); ++k) {
      double above = kPrior[k] / (kSpread[k] * kSpread[k]), below = 1 / (kSpread[k] * kSpread[k]);
      for (size_t n = 0; n < rows.size(); ++n) {
        double rest = y[n];
        for (size_t j = 0; j < x.size(); ++j)
          if (j != k) rest -= x[j] * rows[n][j];
        above += weight[n] * rest * rows[n][k] / (kNoise * kNoise);
        below += weight[n] * rows[n][k] * rows[n][k] / (kNoise * kNoise);
      }
      x[k] = above / below;
    }
  }
  return x;
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double Foretold(const QuotaLaw& law, const Row& f, double base) {
  return base * std::exp(law.gamma * f[0] + law.limited * f[1] + law.others_share * f[2] +
                         law.others * f[3] + law.gamma_size * f[4]);
}

}  // namespace

Result<std::vector<SurfaceRun>> ParseCpuSurface(const std::string& name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(
      const CsvTable table,
      CsvTable::Parse(name, text,
                      {"point", "kind", "tenant", "model", "batch", "share", "runs", "p50_ms",
                       "mean_ms", "p99_ms", "machine"},
                      {"point", "kind", "model", "batch", "share", "runs", "p50_ms", "p99_ms"}));
  std::map<int64_t, SurfaceRun> runs;
  for (size_t i = 0; i < table.rows(); ++i) {
    SurfaceTenant t;
    HASE_ASSIGN_OR_RETURN(const int64_t point, table.RequiredInteger(i, "point"));
    t.model = table.Text(i, "model");
    HASE_ASSIGN_OR_RETURN(t.batch, table.RequiredInteger(i, "batch"));
    HASE_ASSIGN_OR_RETURN(t.share, table.RequiredNumber(i, "share"));
    HASE_ASSIGN_OR_RETURN(t.runs, table.RequiredInteger(i, "runs"));
    HASE_ASSIGN_OR_RETURN(t.p50_ms, table.RequiredNumber(i, "p50_ms"));
    HASE_ASSIGN_OR_RETURN(t.p99_ms, table.RequiredNumber(i, "p99_ms"));
    HASE_ASSIGN_OR_RETURN(const auto mean, table.Number(i, "mean_ms"));
    t.mean_ms = mean.value_or(t.p50_ms);
    if (t.batch < 1 || !(t.share > 0) || t.share > 1 || !(t.p50_ms > 0) || t.p99_ms < t.p50_ms)
      return Invalid(table.Where(i, "p50_ms") +
                     ": a batch below 1, a share outside (0, 1], or times that are none");
    runs[point].kind = table.Text(i, "kind");
    runs[point].tenants.push_back(std::move(t));
  }
  std::vector<SurfaceRun> list;
  for (auto& [point, run] : runs) list.push_back(std::move(run));
  return list;
}

QuotaLaw FitQuotaLaw(const std::vector<SurfaceRun>& runs, const std::string& without) {
  const Bases bases(runs);
  std::vector<Row> rows;
  std::vector<double> y;
  std::vector<double> tails[2][4], all_tails;
  for (const SurfaceRun& run : runs)
    for (size_t i = 0; i < run.tenants.size(); ++i) {
      const SurfaceTenant& t = run.tenants[i];
      if (t.model == without) continue;
      tails[run.tenants.size() > 1][Quarter(t.share)].push_back(t.p99_ms / t.p50_ms);
      all_tails.push_back(t.p99_ms / t.p50_ms);
      const auto base = bases.Of(t.model, t.batch);
      if (!base || IsWholeAlone(run)) continue;
      rows.push_back(FeaturesOf(run, i, *base));
      y.push_back(std::log(t.p50_ms / *base));
    }
  const Row x = Fit(rows, y);
  QuotaLaw law{x[0], x[4], x[1], x[2], x[3], {}};
  for (int beside = 0; beside < 2; ++beside)
    for (int q = 0; q < 4; ++q)
      law.tail[beside][q] = !tails[beside][q].empty() ? Median(tails[beside][q])
                            : !all_tails.empty()      ? Median(all_tails)
                                                      : 1;
  return law;
}

std::vector<SurfaceScore> ScoreCpuSurface(const std::vector<SurfaceRun>& runs,
                                          const std::string& kind, int least_runs) {
  const Bases bases(runs);
  std::set<std::string> models;
  for (const SurfaceRun& run : runs)
    for (const SurfaceTenant& t : run.tenants) models.insert(t.model);
  std::vector<SurfaceScore> scores;
  for (const std::string& model : models) {
    const QuotaLaw law = FitQuotaLaw(runs, model);
    SurfaceScore score{model, 0, 0, 0, 0};
    for (const SurfaceRun& run : runs)
      for (size_t i = 0; i < run.tenants.size(); ++i) {
        const SurfaceTenant& t = run.tenants[i];
        if (t.model != model || IsWholeAlone(run) || (!kind.empty() && run.kind != kind)) continue;
        const auto base = bases.Of(t.model, t.batch);
        if (!base) continue;
        const double p50 = Foretold(law, FeaturesOf(run, i, *base), *base);
        ++score.scored;
        score.p50 += std::abs(p50 / t.p50_ms - 1);
        if (t.runs < least_runs) continue;
        ++score.scored_p99;
        const double p99 = p50 * law.tail[run.tenants.size() > 1][Quarter(t.share)];
        score.p99 += std::abs(p99 / t.p99_ms - 1);
      }
    if (score.scored > 0) score.p50 /= score.scored;
    if (score.scored_p99 > 0) score.p99 /= score.scored_p99;
    scores.push_back(score);
  }
  return scores;
}

}  // namespace hase::latency

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

using Row = std::array<double, 4>;

int Quarter(double share) { return std::clamp(static_cast<int>(std::lround(share * 4)), 1, 4) - 1; }

bool IsWholeAlone(const SurfaceRun& run) {
  return run.tenants.size() == 1 && run.tenants[0].share > 0.999;
}

// The model's times alone on all cores, by batch; between and beyond by the nearest power law.
class Bases {
 public:
  explicit Bases(const std::vector<SurfaceRun>& runs) {
    for (const SurfaceRun& run : runs)
      if (IsWholeAlone(run))
        of_[run.tenants[0].model][run.tenants[0].batch] = run.tenants[0].p50_ms;
  }
  std::optional<double> Of(const std::string& model, int64_t batch) const {
    const auto found = of_.find(model);
    if (found == of_.end()) return std::nullopt;
    const auto& times = found->second;
    if (const auto exact = times.find(batch); exact != times.end()) return exact->second;
    const auto above = times.upper_bound(batch);
    const double b = static_cast<double>(batch);
    if (times.size() == 1)  // nearly all of a run grows with the batch on a CPU
      return times.begin()->second * std::pow(b / static_cast<double>(times.begin()->first), 0.95);
    auto hi = above, lo = above;
    if (above == times.end()) {
      hi = std::prev(times.end());
      lo = std::prev(hi);
    } else if (above == times.begin()) {
      hi = std::next(above);
    } else {
      lo = std::prev(above);
    }
    const double x0 = std::log(static_cast<double>(lo->first)),
                 x1 = std::log(static_cast<double>(hi->first));
    const double y0 = std::log(lo->second), y1 = std::log(hi->second);
    return std::exp(y0 + (y1 - y0) * (std::log(b) - x0) / (x1 - x0));
  }

 private:
  std::map<std::string, std::map<int64_t, double>> of_;
};

Row FeaturesOf(const SurfaceRun& run, size_t i) {
  double others = 0;
  for (size_t j = 0; j < run.tenants.size(); ++j)
    if (j != i) others += run.tenants[j].share;
  const double share = run.tenants[i].share;
  return {std::log(1 / share), share < 0.999 ? 1.0 : 0.0, others,
          static_cast<double>(run.tenants.size() - 1)};
}

// Ridge least squares by coordinate descent: four parameters, small deviations of the last three.
Row Fit(const std::vector<Row>& rows, const std::vector<double>& y) {
  constexpr Row kPrior = {1, 0, 0, 0}, kSpread = {0.2, 0.2, 0.2, 0.1};
  constexpr double kNoise = 0.08;
  Row x = kPrior;
  for (int sweep = 0; sweep < 500; ++sweep)
    for (size_t k = 0; k < 4; ++k) {
      double above = kPrior[k] / (kSpread[k] * kSpread[k]), below = 1 / (kSpread[k] * kSpread[k]);
      for (size_t n = 0; n < rows.size(); ++n) {
        double rest = y[n];
        for (size_t j = 0; j < 4; ++j)
          if (j != k) rest -= x[j] * rows[n][j];
        above += rest * rows[n][k] / (kNoise * kNoise);
        below += rows[n][k] * rows[n][k] / (kNoise * kNoise);
      }
      x[k] = above / below;
    }
  return x;
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double Foretold(const QuotaLaw& law, const Row& f, double base) {
  return base * std::exp(law.gamma * f[0] + law.limited * f[1] + law.others_share * f[2] +
                         law.others * f[3]);
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
      rows.push_back(FeaturesOf(run, i));
      y.push_back(std::log(t.p50_ms / *base));
    }
  const Row x = Fit(rows, y);
  QuotaLaw law{x[0], x[1], x[2], x[3], {}};
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
        const double p50 = Foretold(law, FeaturesOf(run, i), *base);
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

// The CPU surface: tenants of this machine's cores under quotas, alone and beside others, measured
// once (bench/inss/cpu_surface.cc), and the law of a quota that is held against it.
//
// The law: a model's time at a share is its time on all cores, at the same batch, times
// (1 / share)^(gamma + d · log(time / 20 ms)) · exp(a · [share < 1] + b · others' shares + c ·
// number of others); p99 / p50 is a factor by share, alone or not. gamma, a, b, c, d and the
// factors come from other models only; of the model itself its few rows at a whole share alone are
// used, and never scored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hase::latency {

struct SurfaceTenant {
  std::string model;
  int64_t batch = 1;
  double share = 1;
  int64_t runs = 0;
  double p50_ms = 0, mean_ms = 0, p99_ms = 0;
};
struct SurfaceRun {
  std::string kind;  // solo, pair, triple
  std::vector<SurfaceTenant> tenants;
};
// Errors name file, line and column.
Result<std::vector<SurfaceRun>> ParseCpuSurface(const std::string& name, std::string_view text);

struct QuotaLaw {
  double gamma = 1, gamma_size = 0, limited = 0, others_share = 0, others = 0;
  double tail[2][4] = {{1, 1, 1, 1}, {1, 1, 1, 1}};  // p99 / p50: [alone, beside][quarter of share]
};
// Fitted to all tenants but those of `without` (empty: of none).
QuotaLaw FitQuotaLaw(const std::vector<SurfaceRun>& runs, const std::string& without);

struct SurfaceScore {
  std::string model;
  int scored = 0;  // tenants
  double p50 = 0;  // mean absolute relative error
  double p99 = 0;  // the same, over tenants of at least `least_runs` runs
  int scored_p99 = 0;
};
// Every model held out in turn; `kind` empty = all.
std::vector<SurfaceScore> ScoreCpuSurface(const std::vector<SurfaceRun>& runs,
                                          const std::string& kind, int least_runs);

}  // namespace hase::latency

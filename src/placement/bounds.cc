// The linear programmes behind the bounds, by Clp and CBC, whose headers stay in this file.
//
// Jobs whose times are proportional enter as one column set: x is then the amount of work, so a
// trace of thousands of jobs over a few models is an LP of a few dozen columns.
#include "placement/bounds.h"

#include <CbcModel.hpp>
#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <CoinPackedVector.hpp>
#include <OsiClpSolverInterface.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace hase::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double LeastTime(const BoundJob& job) {
  return job.p_s.empty() ? kNever : *std::min_element(job.p_s.begin(), job.p_s.end());
}

// Times divided by the least one, rounded to 1e-9: jobs of one shape share their columns.
struct Shape {
  std::vector<int64_t> ratios;  // -1 = inadmissible
  bool operator<(const Shape& other) const { return ratios < other.ratios; }
};

Shape ShapeOf(const BoundJob& job) {
  const double least = LeastTime(job);
  Shape shape;
  for (const double p : job.p_s) {
    shape.ratios.push_back(std::isfinite(p) ? std::llround(p / least * 1e9) : -1);
  }
  return shape;
}

// Least C with  busy_i + Σ_g r_gi x_gi ≤ sigma_i n_i C  for each class i,  Σ_i x_gi = work_g.
// `parts`, if asked for: x_gi / work_g by shape, in order, and class.
double SolveWork(const std::vector<BoundClass>& classes, const std::map<Shape, double>& work,
                 std::vector<std::vector<double>>* parts = nullptr) {
  double scale = 0;
  for (const auto& [shape, amount] : work) scale += amount;
  if (parts) parts->assign(work.size(), std::vector<double>(classes.size(), 0));
  if (scale <= 0) return 0;
  const size_t n = classes.size();
  // Columns as Clp keeps them: first the bound C, then one per shape and class that admits it.
  std::vector<CoinBigIndex> starts = {0};
  std::vector<int> rows;
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) {
    rows.push_back(static_cast<int>(i));
    values.push_back(-classes[i].sigma * classes[i].count);
  }
  starts.push_back(static_cast<CoinBigIndex>(rows.size()));
  std::vector<double> row_low(n, -COIN_DBL_MAX), row_high;
  for (const BoundClass& c : classes) row_high.push_back(-c.busy_s / scale);
  std::vector<std::pair<size_t, size_t>> of_column = {{0, 0}};  // shape, class
  for (const auto& [shape, amount] : work) {
    for (size_t i = 0; i < n; ++i) {
      if (shape.ratios[i] < 0 || classes[i].count == 0) continue;
      of_column.emplace_back(row_low.size() - n, i);
      rows.push_back(static_cast<int>(i));
      values.push_back(static_cast<double>(shape.ratios[i]) * 1e-9);
      rows.push_back(static_cast<int>(row_low.size()));
      values.push_back(1);
      starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    }
    row_low.push_back(amount / scale);
    row_high.push_back(amount / scale);
  }
  const size_t columns = starts.size() - 1;
  std::vector<double> cost(columns, 0);
  cost[0] = 1;
  const std::vector<double> low(columns, 0), high(columns, COIN_DBL_MAX);
  ClpSimplex lp;
  lp.setLogLevel(0);
  lp.loadProblem(static_cast<int>(columns), static_cast<int>(row_low.size()), starts.data(),
                 rows.data(), values.data(), low.data(), high.data(), cost.data(), row_low.data(),
                 row_high.data());
  lp.dual();
  if (lp.status() != 0) return 0;  // infeasible or not solved: nothing is claimed
  for (size_t c = 1; parts && c < columns; ++c) {
    const auto [shape, i] = of_column[c];
    (*parts)[shape][i] = lp.primalColumnSolution()[c] / row_low[n + shape];
  }
  // The solver's tolerance and the rounded ratios may cost a millionth, never gain one.
  return lp.objectiveValue() * scale * (1 - 1e-6);
}

std::map<Shape, double> WorkFrom(const BoundInstance& instance, double release_s) {
  std::map<Shape, double> work;
  for (const BoundJob& job : instance.jobs) {
    const double least = LeastTime(job);
    if (job.release_s < release_s || !std::isfinite(least) || least <= 0) continue;
    work[ShapeOf(job)] += least * job.gang;
  }
  return work;
}

// Column of x_ji in the optimum's programme: jobs outermost, the makespan last.
int Column(size_t job, size_t device, size_t devices) {
  return static_cast<int>(job * devices + device);
}

}  // namespace

double WorkLowerBound(const BoundInstance& instance) {
  return SolveWork(instance.classes, WorkFrom(instance, -kNever));
}

std::vector<std::vector<double>> WorkAllocation(const BoundInstance& instance) {
  const auto work = WorkFrom(instance, -kNever);
  std::vector<std::vector<double>> by_shape, by_job;
  SolveWork(instance.classes, work, &by_shape);
  for (const BoundJob& job : instance.jobs) {
    const auto at = work.find(ShapeOf(job));
    if (at == work.end()) {
      by_job.emplace_back(instance.classes.size(), 0.0);
    } else {
      by_job.push_back(by_shape[static_cast<size_t>(std::distance(work.begin(), at))]);
    }
  }
  return by_job;
}

double MakespanLowerBound(const BoundInstance& instance, int most_releases) {
  double bound = 0;
  std::vector<double> releases;
  for (const BoundJob& job : instance.jobs) {
    const double least = LeastTime(job);
    if (!std::isfinite(least)) continue;
    releases.push_back(job.release_s);
    if (!job.divisible) bound = std::max(bound, job.release_s + least);
  }
  std::sort(releases.begin(), releases.end());
  releases.erase(std::unique(releases.begin(), releases.end()), releases.end());
  const size_t n = releases.size();
  const size_t solve = std::min<size_t>(n, static_cast<size_t>(std::max(most_releases, 2)));
  for (size_t k = 0; k < solve; ++k) {
    const size_t at = solve == n ? k : k * (n - 1) / (solve - 1);
    bound = std::max(bound,
                     releases[at] + SolveWork(instance.classes, WorkFrom(instance, releases[at])));
  }
  return bound;
}

double MeanFlowLowerBound(const BoundInstance& instance) {
  double sum = 0;
  int count = 0;
  for (const BoundJob& job : instance.jobs) {
    const double least = LeastTime(job);
    if (!std::isfinite(least)) continue;
    ++count;
    if (!job.divisible) {
      sum += least;
      continue;
    }
    double speed = 0;  // all devices at once
    for (size_t i = 0; i < job.p_s.size(); ++i) {
      if (std::isfinite(job.p_s[i])) speed += instance.classes[i].count / job.p_s[i];
    }
    sum += 1 / speed;
  }
  return count > 0 ? sum / count : 0;
}

std::optional<double> OptimalMakespan(const BoundInstance& instance, double limit_s) {
  std::vector<size_t> class_of;
  for (size_t i = 0; i < instance.classes.size(); ++i) {
    class_of.insert(class_of.end(), static_cast<size_t>(instance.classes[i].count), i);
  }
  const size_t devices = class_of.size(), jobs = instance.jobs.size();
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  std::vector<double> lower, upper, cost;
  CoinPackedMatrix matrix(false, 0, 0);
  matrix.setDimensions(0, static_cast<int>(jobs * devices + 1));
  std::vector<double> row_low, row_high;
  for (size_t j = 0; j < jobs; ++j) {
    const BoundJob& job = instance.jobs[j];
    if (job.gang > 1 || job.release_s > 0) return std::nullopt;
    CoinPackedVector once;
    for (size_t d = 0; d < devices; ++d) {
      const bool possible = std::isfinite(job.p_s[class_of[d]]);
      lower.push_back(0), upper.push_back(possible ? 1 : 0), cost.push_back(0);
      once.insert(Column(j, d, devices), 1.0);
    }
    matrix.appendRow(once);
    row_low.push_back(1), row_high.push_back(1);
  }
  lower.push_back(0), upper.push_back(COIN_DBL_MAX), cost.push_back(1);
  for (size_t d = 0; d < devices; ++d) {
    CoinPackedVector load;
    for (size_t j = 0; j < jobs; ++j) {
      const double p = instance.jobs[j].p_s[class_of[d]];
      if (std::isfinite(p)) load.insert(Column(j, d, devices), p);
    }
    load.insert(static_cast<int>(jobs * devices), -1.0);
    matrix.appendRow(load);
    row_low.push_back(-COIN_DBL_MAX), row_high.push_back(0);
  }
  solver.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_low.data(),
                     row_high.data());
  for (size_t c = 0; c < jobs * devices; ++c) solver.setInteger(static_cast<int>(c));
  CbcModel model(solver);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  model.setMaximumSeconds(limit_s);
  model.branchAndBound();
  if (!model.isProvenOptimal()) return std::nullopt;
  return model.getObjValue();
}

}  // namespace hase::placement

#include "measurement/metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "placement/view.h"

namespace hase::measurement {
namespace {

using execution::Ending;

// Nearest rank; 0 of nothing.
double Percentile(std::vector<double>& values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(p * static_cast<double>(values.size()));
  const auto index = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(index, values.size() - 1)];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void CountJob(const execution::JobOutcome& job, Metrics& m) {
  m.finished += job.ending == Ending::kFinished;
  m.failed += job.ending == Ending::kFailed;
  m.rejected += job.ending == Ending::kRejected;
  m.cancelled += job.ending == Ending::kCancelled;
  if (job.promise && job.first_start) {
    ++m.promises_made;
    m.promises_kept += *job.first_start <= job.promise->from + placement::kPromiseTolerance;
    m.promised_probability += job.promise->probability;
  }
}

}  // namespace

Metrics ComputeMetrics(const execution::Outcome& outcome, size_t devices) {
  Metrics m;
  m.jobs = static_cast<int>(outcome.jobs.size());
  std::vector<double> completion, wait, errors, decisions;
  Nanos first = Nanos::Max(), last;
  int missed = 0;
  for (const auto& job : outcome.jobs) {
    if (job.finished_before) continue;
    CountJob(job, m);
    first = std::min(first, job.arrival);
    if (job.first_start && job.end) last = std::max(last, *job.end);
    if (job.first_start) wait.push_back(ToSeconds(*job.first_start - job.arrival));
    const bool finished = job.ending == Ending::kFinished;
    if (finished) completion.push_back(ToSeconds(*job.end - job.arrival));
    if (job.deadline && job.ending != Ending::kCancelled) {
      ++m.deadlines;
      missed += !finished || *job.end > *job.deadline;
    }
  }
  if (m.deadlines > 0) m.deadline_miss = static_cast<double>(missed) / m.deadlines;
  if (m.promises_made > 0) m.promised_probability /= m.promises_made;
  if (last > first) m.makespan_s = ToSeconds(last - first);
  double booked_s = 0;
  for (const auto& run : outcome.runs) {
    m.backfilled += run.backfilled;
    for (const auto& slot : run.slots) {
      booked_s += ToSeconds(run.ended - run.started) * ToFraction(slot.share);
    }
    if (run.ok && run.predicted_work_s > 0) {
      errors.push_back(std::abs(run.observed_work_s / run.predicted_work_s - 1));
    }
  }
  if (devices > 0 && m.makespan_s > 0) {
    m.utilisation = booked_s / (m.makespan_s * static_cast<double>(devices));
  }
  m.mean_completion_s = Mean(completion);
  m.p99_completion_s = Percentile(completion, 0.99);
  m.mean_wait_s = Mean(wait);
  m.p99_wait_s = Percentile(wait, 0.99);
  m.prediction_mape = Mean(errors);
  m.prediction_median_ape = Percentile(errors, 0.5);
  for (const int64_t ns : outcome.decision_ns) {
    decisions.push_back(static_cast<double>(ns) * 1e-3);
  }
  m.decision_p50_us = Percentile(decisions, 0.5);
  m.decision_p99_us = Percentile(decisions, 0.99);
  m.decision_max_us = Percentile(decisions, 1);
  m.decisions = static_cast<int64_t>(decisions.size());
  m.events = outcome.events;
  m.out_of_memory = outcome.out_of_memory;
  m.overruns = outcome.overruns;
  m.promises_on_lost_devices = outcome.promises_on_lost_devices;
  return m;
}

std::optional<double> ClosedGap(double round_robin, double x, double bound) {
  const double gap = round_robin - bound;
  if (gap <= 1e-3 * bound) return std::nullopt;
  return (round_robin - x) / gap;
}

}  // namespace hase::measurement

#include "measurement/prediction_error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hase::measurement {

double PredictionPoint::error() const {
  return measured_s > 0 ? std::abs(predicted_s - measured_s) / measured_s : 0;
}

std::vector<PredictionPoint> PredictionPoints(const execution::Outcome& outcome) {
  std::vector<PredictionPoint> points;
  for (const execution::RunOutcome& run : outcome.runs) {
    if (!run.ok || run.slots.empty()) continue;
    PredictionPoint point{.job = run.job,
                          .device = run.slots.front().device,
                          .load = false,
                          .predicted_s = run.predicted_work_s,
                          .measured_s = run.observed_work_s};
    if (point.measured_s > 0) points.push_back(point);
    if (!run.loaded || run.predicted_load_s <= 0) continue;
    point.load = true;
    point.predicted_s = run.predicted_load_s;
    point.measured_s = ToSeconds(*run.loaded - run.started);
    if (point.measured_s > 0) points.push_back(point);
  }
  return points;
}

ErrorSummary Summarise(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double p) {
    const double place = p * static_cast<double>(errors.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, errors.size() - 1);
    return std::lerp(errors[low], errors[high], place - static_cast<double>(low));
  };
  return {.count = static_cast<int>(errors.size()),
          .median = at(0.5),
          .mean = std::accumulate(errors.begin(), errors.end(), 0.0) /
                  static_cast<double>(errors.size()),
          .p90 = at(0.9)};
}

}  // namespace hase::measurement

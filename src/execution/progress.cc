#include "execution/progress.h"

#include <algorithm>
#include <cmath>

namespace hase::execution {
namespace {

// Log-scale deviations of what `independent_sigma` leaves out: jitter of one report, and the
// predicted slow-down of a run that shared its device.
constexpr double kReportSigma = 0.03;
constexpr double kSlowdownSigma = 0.10;
// A run that has not reported its end is never believed to be nearer than this part of a batch.
constexpr double kLeastLeft = 0.02;

}  // namespace

void Progress::Advance(Nanos now) {
  if (now <= credit_at) return;
  credit_s += ToSeconds(now - credit_at) / slowdown;
  credit_at = now;
  ever_shared = ever_shared || slowdown > 1.0001;
}

void Progress::NoteLoaded() {
  loaded = true;
  load_worth_s = credit_s;
  credit_s = 0;
}

void Progress::NoteChunk(double batches_of_chunk, const latency::Estimate& estimate, double speed) {
  work_s += batches_of_chunk * estimate.latency_s * speed;
  base_s += batches_of_chunk * estimate.latency_s;
  observed_s += credit_s;
  credit_s = 0;
  batches_done = std::min(batches, batches_done + batches_of_chunk);
}

Progress::Posterior Progress::LogError(const latency::Estimate& estimate) const {
  double prior = estimate.shared_sigma * estimate.shared_sigma;
  if (ever_shared) prior += kSlowdownSigma * kSlowdownSigma;
  if (work_s <= 0 || observed_s <= 0 || prior <= 0) return {0, prior};
  const double noise =
      estimate.independent_sigma * estimate.independent_sigma / std::max(1.0, batches_done) +
      kReportSigma * kReportSigma;
  const double weight = prior / (prior + noise);
  return {std::log(observed_s / work_s) * weight, weight * noise};
}

latency::Spread Progress::Left(const latency::Estimate& estimate, double speed) const {
  const Posterior error = LogError(estimate);
  latency::Estimate now;  // not a copy: the texts cost more than the arithmetic
  now.independent_sigma = estimate.independent_sigma;
  now.latency_s = estimate.latency_s * std::exp(error.mean);
  now.shared_sigma = std::sqrt(error.variance);
  const double rest = batches - batches_done;
  if (!loaded) {
    latency::Spread left = now.Runs(rest).ScaledBy(speed);
    const double load_left = std::max(estimate.load_s * kLeastLeft, estimate.load_s - credit_s);
    const double deviation = load_left * estimate.load_sigma;
    return left + latency::Spread{load_left, deviation * deviation};
  }
  const double batch_s = now.latency_s * speed;
  const double gone = batch_s > 0 ? credit_s / batch_s : 0;
  return now.Runs(std::max(rest - gone, kLeastLeft)).ScaledBy(speed);
}

bool Progress::NoteOverrun() {
  if (overrunning || load_worth_s + observed_s + credit_s <= limit_s) return false;
  overrunning = true;
  return true;
}

}  // namespace hase::execution

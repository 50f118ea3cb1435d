#include "placement/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace hase::placement {
namespace {

using latency::Spread;
using latency::Tenant;

double SlowdownOf(const PlanningView& view, const DeviceState& device,
                  std::span<const Tenant> running, size_t self) {
  std::vector<Tenant> others;
  others.reserve(running.size());
  for (size_t i = 0; i < running.size(); ++i) {
    if (i != self) others.push_back(running[i]);
  }
  return view.estimator->Slowdown(running[self], device.type, others, device.foreign);
}

// Mean time from now at which each resident ends; infinite for services.
std::vector<double> IntegrateFinish(const PlanningView& view, const DeviceState& device,
                                    std::span<const Resident> residents) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const size_t n = residents.size();
  std::vector<double> left(n), finish(n, kNever);
  std::vector<size_t> active(n);
  for (size_t i = 0; i < n; ++i) {
    active[i] = i;
    left[i] = residents[i].left ? residents[i].left->mean_s : kNever;
  }
  double t = 0;
  while (!active.empty()) {
    std::vector<Tenant> running;
    for (const size_t i : active) running.push_back(residents[i].tenant);
    std::vector<double> slow(active.size());
    double step = kNever;
    for (size_t k = 0; k < active.size(); ++k) {
      slow[k] = SlowdownOf(view, device, running, k);
      step = std::min(step, left[active[k]] * slow[k]);
    }
    if (step == kNever) break;  // only services are left
    t += step;
    std::vector<size_t> still;
    for (size_t k = 0; k < active.size(); ++k) {
      const size_t i = active[k];
      left[i] -= step / slow[k];
      if (left[i] <= 1e-12 * t) {
        finish[i] = t;
      } else {
        still.push_back(i);
      }
    }
    active = std::move(still);
  }
  return finish;
}

// Takes from the device's own residents (the first ones of `all`) what they did since `left_at`.
void AdvanceTo(const PlanningView& view, const DeviceState& device, std::vector<Resident>& all) {
  std::vector<Tenant> running;
  for (const Resident& r : device.residents) running.push_back(r.tenant);
  for (size_t i = 0; i < running.size(); ++i) {
    Resident& r = all[i];
    if (!r.left) continue;
    const double done = ToSeconds(view.now - r.left_at) / SlowdownOf(view, device, running, i);
    r.left->mean_s = std::max(r.left->mean_s - done, 0.0);
    r.left_at = view.now;
  }
}

double NormalDensity(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

Spread LaterOf(const Spread& a, const Spread& b) {
  const double theta = std::sqrt(a.variance_s2 + b.variance_s2);
  if (theta == 0) return a.mean_s >= b.mean_s ? a : b;
  const double alpha = (a.mean_s - b.mean_s) / theta;
  const double pa = NormalCdf(alpha), pb = NormalCdf(-alpha), d = NormalDensity(alpha);
  const double first = a.mean_s * pa + b.mean_s * pb + theta * d;
  const double second = (a.mean_s * a.mean_s + a.variance_s2) * pa +
                        (b.mean_s * b.mean_s + b.variance_s2) * pb +
                        (a.mean_s + b.mean_s) * theta * d;
  return {first, std::max(0.0, second - first * first)};
}

Spread StillToCome(const Spread& whole, double elapsed_s) {
  if (elapsed_s <= 0) return whole;
  if (whole.mean_s <= 0 || whole.variance_s2 <= 0) {
    return {std::max(0.0, whole.mean_s - elapsed_s), 0};
  }
  const double sigma2 = std::log1p(whole.variance_s2 / (whole.mean_s * whole.mean_s));
  const double sigma = std::sqrt(sigma2);
  const double a = (std::log(whole.mean_s) - sigma2 / 2 - std::log(elapsed_s)) / sigma;
  const double alive = NormalCdf(a);
  if (alive < 1e-9) {  // far beyond: the tail falls off at this rate
    const double rest = elapsed_s * sigma / std::max(1.0, -a);
    return {rest, rest * rest};
  }
  const double first = whole.mean_s * NormalCdf(a + sigma) / alive;
  const double second =
      whole.mean_s * whole.mean_s * std::exp(sigma2) * NormalCdf(a + 2 * sigma) / alive;
  return {std::max(0.0, first - elapsed_s), std::max(0.0, second - first * first)};
}

DeviceForecast ForecastDevice(const PlanningView& view, const DeviceState& device,
                              std::span<const Resident> joining) {
  DeviceForecast result;
  result.made_at = result.free_at = result.since = view.now;
  if (device.residents.empty() && joining.empty()) return result;
  std::vector<Resident> all(device.residents.begin(), device.residents.end());
  all.insert(all.end(), joining.begin(), joining.end());
  // Without newcomers the rates have been the same since `left_at`: integrate from there, so that
  // the answer does not drift while nothing happens.
  const Nanos origin = all.front().left_at;
  const double passed = ToSeconds(view.now - origin);
  if (!joining.empty() && passed > 0) AdvanceTo(view, device, all);
  const double offset = joining.empty() ? passed : 0;
  if (joining.empty()) result.since = origin;
  const std::vector<double> finish = IntegrateFinish(view, device, all);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].left) {
      result.ends = false;
      result.until_end.push_back({std::numeric_limits<double>::infinity(), 0});
      continue;
    }
    const Spread& left = *all[i].left;
    const double stretch = left.mean_s > 0 ? finish[i] / left.mean_s : 1;
    const double variance = left.variance_s2 * stretch * stretch;
    const Spread end{std::max(finish[i] - offset, 0.0), variance};
    result.joint = LaterOf(result.joint, {finish[i], variance});
    result.until_end.push_back(end);
    result.until_free = LaterOf(result.until_free, end);
  }
  // Not cut off at now: that a device should have been free long since says that it overruns.
  result.free_at = joining.empty() ? origin + FromSeconds(result.joint.mean_s)
                                   : view.now + FromSeconds(result.until_free.mean_s);
  return result;
}

bool IsWarm(const DeviceState& device, ModelId model) {
  return std::find(device.warm.begin(), device.warm.end(), model) != device.warm.end();
}

std::optional<Spread> SoloTime(const PlanningView& view, const QueuedJob& job, int64_t inputs,
                               const DeviceState& device) {
  const latency::Estimate* estimate = view.estimator->Find(job.model, device.type, job.batch);
  if (!estimate) return std::nullopt;
  return estimate->Job(BatchesPerSlot(inputs, job.batch, job.gang), !IsWarm(device, job.model))
      .ScaledBy(device.speed_factor);
}

std::optional<Resident> AsResident(const PlanningView& view, const QueuedJob& job, int64_t inputs,
                                   const DeviceState& device, MilliShare share,
                                   cluster::ShareMode mode) {
  const latency::Estimate* estimate = view.estimator->Find(job.model, device.type, job.batch);
  if (!estimate) return std::nullopt;
  Resident resident;
  resident.job = job.id;
  resident.owner = job.owner;
  resident.priority = job.priority;
  resident.sharing = job.sharing;
  resident.tenant = {job.model, job.batch, share};
  resident.mode = mode;
  resident.memory = MemoryNeed(job, *estimate);
  resident.started = resident.left_at = view.now;
  resident.left =
      estimate->Job(BatchesPerSlot(inputs, job.batch, job.gang), !IsWarm(device, job.model))
          .ScaledBy(device.speed_factor);
  return resident;
}

}  // namespace hase::placement

#include "placement/timeline.h"

#include <algorithm>

#include "placement/forecast.h"

namespace hase::placement {
namespace {
constexpr Nanos kRounding = Nanos(1'000);  // of means summed as doubles
}

void Timeline::Clear(size_t devices) {
  ++epoch_;
  rows_.resize(std::max(rows_.size(), devices));
}

void Timeline::Reserve(DeviceId device, const Hold& hold) {
  Row& row = rows_[device.index()];
  if (row.epoch != epoch_) {
    row.epoch = epoch_;
    row.holds.clear();
  }
  const auto at = std::upper_bound(row.holds.begin(), row.holds.end(), hold,
                                   [](const Hold& a, const Hold& b) { return a.from < b.from; });
  row.holds.insert(at, hold);
}

int Timeline::Release(DeviceId device, JobId job) {
  Row& row = rows_[device.index()];
  if (row.epoch != epoch_) return 0;
  return static_cast<int>(std::erase_if(row.holds, [&](const Hold& h) { return h.job == job; }));
}

std::span<const Hold> Timeline::Holds(DeviceId device) const {
  const Row& row = rows_[device.index()];
  if (row.epoch != epoch_) return {};
  return row.holds;
}

bool Timeline::Fits(DeviceId device, Bytes memory_total, const Hold& wanted) const {
  const auto holds = Holds(device);
  // Use rises only where a hold begins: those instants and the beginning suffice.
  const auto free_at = [&](Nanos t) {
    MilliShare share = wanted.share;
    Bytes memory = wanted.memory;
    for (const Hold& h : holds) {
      if (h.from > t) break;
      if (h.until <= t) continue;
      share += h.share;
      memory += h.memory;
    }
    return share <= kWholeDevice && memory <= memory_total;
  };
  if (!free_at(wanted.from)) return false;
  for (const Hold& h : holds) {
    if (h.from >= wanted.until) break;
    if (h.from > wanted.from && !free_at(h.from)) return false;
  }
  return true;
}

Nanos Timeline::EarliestFit(DeviceId device, Bytes memory_total, Nanos duration, MilliShare share,
                            Bytes memory, Nanos from) const {
  if (share > kWholeDevice || memory > memory_total) return Nanos::Max();
  std::vector<Nanos> starts = {from};  // use falls only where a hold ends
  for (const Hold& h : Holds(device)) {
    if (h.until > from) starts.push_back(h.until);
  }
  std::sort(starts.begin(), starts.end());
  for (const Nanos start : starts) {
    if (Fits(device, memory_total, {JobId(0), start, start + duration, share, memory, 0})) {
      return start;
    }
  }
  return Nanos::Max();  // not reached: after the last end all is free
}

latency::Spread Timeline::FreeBy(DeviceId device, Nanos now, Nanos start,
                                 const latency::Spread& residents) const {
  latency::Spread free = residents, running = residents;
  Nanos running_until = now + FromSeconds(residents.mean_s);
  for (const Hold& h : Holds(device)) {
    if (h.from >= start) break;
    const double length = ToSeconds(h.until - h.from);
    if (h.from + kRounding >= running_until) {
      // Begins when all before it has ended; an idle gap swallows some of their uncertainty.
      const latency::Spread begin{ToSeconds(h.from - now), free.variance_s2};
      running = begin + latency::Spread{length, h.variance_s2};
      free = running;
    } else {
      const latency::Spread end{ToSeconds(h.until - now), h.variance_s2};
      running = end;
      free = LaterOf(free, end);
    }
    running_until = std::max(running_until, h.until);
  }
  return free;
}

double ProbabilityAllBy(std::span<const latency::Spread> times, double t_s) {
  double p = 1;
  for (const latency::Spread& time : times) {
    if (time.mean_s > 0 || time.variance_s2 > 0) p *= time.Cdf(t_s);
  }
  return p;
}

double QuantileOfAll(std::span<const latency::Spread> times, double p) {
  double low = 0, high = 0;
  for (const latency::Spread& time : times) {
    if (time.mean_s <= 0) continue;
    low = std::max(low, time.Quantile(p));
    // By the union bound each may fail with an equal part of 1 − p.
    high = std::max(high, time.Quantile(1 - (1 - p) / static_cast<double>(times.size())));
  }
  if (ProbabilityAllBy(times, low) >= p) return low;
  for (int i = 0; i < 60 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (ProbabilityAllBy(times, middle) >= p ? high : low) = middle;
  }
  return high;
}

}  // namespace hase::placement

// Timeline: who holds how much of which device, and until when. Reservation arithmetic only: what
// to reserve for whom is policy.
//
// A hold is half-open in time, [from, until), with the mean as its end and the variance of its own
// length. Holds of one device may overlap as long as shares and memory fit. When a device is free
// is a random time: parallel holds are joined by the later of both, holds that wait for others by
// the sum of moments (Clark 1961); quantiles come from the moments, never from adding quantiles.
// Left out: correlation between holds (a model mispredicted once is so everywhere).
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "latency/estimate.h"

namespace hase::placement {

struct Hold {
  JobId job;
  Nanos from, until;
  MilliShare share = kWholeDevice;
  Bytes memory;
  double variance_s2 = 0;  // of until − from
};

class Timeline {
 public:
  // Forgets all holds; costs nothing per device. `devices`: how many there are now.
  void Clear(size_t devices);
  void Reserve(DeviceId device, const Hold& hold);
  // Drops the holds of this job on the device; returns how many there were.
  int Release(DeviceId device, JobId job);
  std::span<const Hold> Holds(DeviceId device) const;  // in order of `from`

  // The earliest time not before `from` at which share and memory are free for `duration`;
  // Nanos::Max() if they exceed the device. Costs the square of the holds on the device.
  Nanos EarliestFit(DeviceId device, Bytes memory_total, Nanos duration, MilliShare share,
                    Bytes memory, Nanos from) const;
  bool Fits(DeviceId device, Bytes memory_total, const Hold& hold) const;

  // Moments, from `now`, of the time at which all that is held on the device before `start` has
  // ended: `residents` (their joint finish) and the holds that begin before it.
  latency::Spread FreeBy(DeviceId device, Nanos now, Nanos start,
                         const latency::Spread& residents) const;

 private:
  struct Row {
    uint64_t epoch = 0;
    std::vector<Hold> holds;
  };
  std::vector<Row> rows_;
  uint64_t epoch_ = 1;
};

// Probability that both (all) of these independent times have passed by t.
double ProbabilityAllBy(std::span<const latency::Spread> times, double t_s);
// The time by which all have passed with probability p.
double QuantileOfAll(std::span<const latency::Spread> times, double p);

}  // namespace hase::placement

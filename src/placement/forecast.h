// Forecast: when will what runs on a device end, and how long would this job take there?
//
// Residents progress at rates 1 / slow-down that change whenever one of them ends; the forecast
// integrates their expected remaining work over these pieces. The joint finish ("all of them have
// ended") comes from the moments of each, maxima by Clark (1961, "The greatest of a finite set of
// random variables"), sums by adding moments; quantiles are never added.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "latency/estimate.h"
#include "placement/view.h"

namespace hase::placement {

struct DeviceForecast {
  Nanos made_at;
  bool ends = true;            // false: a service lives here, the device is never wholly free
  Nanos free_at;               // mean time at which the last resident ends (past if it overruns)
  latency::Spread until_free;  // from now; never less than nothing
  // The same joint finish as it was when the residents were last heard of, from then on: whatever
  // the time, a fresh forecast says the same.
  Nanos since;
  latency::Spread joint;
  std::vector<latency::Spread> until_end;  // of each resident, in their order
};

// Residents of the device, then `joining` (with `left` set), as they would run together from now.
DeviceForecast ForecastDevice(const PlanningView& view, const DeviceState& device,
                              std::span<const Resident> joining = {});

// Moments of the later of two independent times.
latency::Spread LaterOf(const latency::Spread& a, const latency::Spread& b);

// Moments of what is still to come of `whole` when it has not ended after `elapsed_s`. (A
// log-normal cut off below; work that nobody reports on until it ends.)
latency::Spread StillToCome(const latency::Spread& whole, double elapsed_s);

bool IsWarm(const DeviceState& device, ModelId model);

// Solo time of the job on the whole device, its speed factor included; nullopt: no estimate.
std::optional<latency::Spread> SoloTime(const PlanningView& view, const QueuedJob& job,
                                        int64_t inputs, const DeviceState& device);

// The job as a resident of the device in `slot`, with all its work left.
std::optional<Resident> AsResident(const PlanningView& view, const QueuedJob& job, int64_t inputs,
                                   const DeviceState& device, MilliShare share,
                                   cluster::ShareMode mode);

}  // namespace hase::placement

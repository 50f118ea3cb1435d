// The request-level world: open-loop arrivals meet service instances with queues of their own, that
// form batches and run them for as long as ServingTruth says. It judges plans; it knows none of the
// planner's queueing arithmetic.
//
// A request goes to one of its service's live instances, in turn by weight. A server that is free
// starts a batch when `batch` requests wait, or when the oldest has waited `max_wait`; it takes at
// most `batch`. Servers of one device that are busy at the same time slow each other down; the
// slow-down is integrated over the time they overlap. An instance serves between `ready` and
// `closed` (loading time, memory and replacements: lifetimes.h); requests sent to it before it
// closed are still served. Left out: the network, requests that are given up, failures, and what a
// loading process takes from its neighbours.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "world/serving_truth.h"

namespace hase::world {

// What may change while an instance runs.
struct Setting {
  double from_s = 0;
  int64_t batch = 1;  // the largest it forms; at most server.batch
  double weight = 1;
};

struct ServingInstance {
  ServiceId service;
  Server server;
  int processes = 1;  // servers that share the instance's queue and its slot
  double max_wait_s = 0;
  double weight = 1;               // of the service's requests
  double ready_s = 0;              // serves from then on; cold: starts to load then
  bool cold = false;               // loads first, for as long as the truth says
  std::optional<double> closed_s;  // nullopt: serves to the end
  std::optional<size_t> replaces;  // closes that instance when it is ready itself
  std::vector<Setting> later;      // by time; before the first, as above
};

struct ServedService {
  std::vector<double> arrivals_s;  // sorted
  double slo_ms = 0;
  double percentile = 0.99;
};

struct ServiceOutcome {
  int64_t requests = 0;  // after the warm-up
  int64_t late = 0;      // above the objective, or never served
  double p50_ms = 0, p99_ms = 0, at_percentile_ms = 0;
  double attainment = 1;  // fraction within the objective
  double mean_wait_ms = 0, mean_run_ms = 0, mean_batch = 0;
};

struct RequestOutcome {
  std::vector<ServiceOutcome> services;
  int64_t requests = 0, late = 0;
  double goodput_rps = 0;                // requests within their objective per second
  int64_t delayed_starts = 0, gaps = 0;  // lifetimes.h
  double loading_s = 0;
  double late_fraction() const {
    return requests > 0 ? static_cast<double>(late) / static_cast<double>(requests) : 0;
  }
  bool every_objective_kept(std::span<const ServedService> services_asked) const;
};

struct RequestOptions {
  double duration_s = 60;  // arrivals end here; what waits then is still served
  double warm_up_s = 2;    // requests that arrive before this are served but not counted
  uint64_t seed = 1;
};

// Deterministic for equal arguments.
RequestOutcome ServeRequests(std::span<const ServedService> services,
                             std::span<const ServingInstance> instances, const ServingTruth& truth,
                             const RequestOptions& options);

}  // namespace hase::world

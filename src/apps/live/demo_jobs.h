// The demo's work: which models are measured beforehand, and the jobs a seed draws. Sizes and times
// are chosen so that round-robin takes about two minutes on two cores; nothing is tuned to a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "workload/job.h"

namespace hase::live {

// A model at a batch size. `profiled`: measured before the demo runs jobs; the others are never
// measured, and some of their models not at any batch.
struct Pair {
  std::string_view model;
  int64_t batch = 1;
  bool profiled = false;
  bool operator==(const Pair&) const = default;
};
std::span<const Pair> DemoPairs(bool quick);

// Predicted times on the fastest device, which jobs are sized by.
struct PairTime {
  double batch_s = 0, load_s = 0;
};
using TimeOf = std::function<PairTime(const Pair& pair)>;

struct DemoSize {
  int jobs = 28;
  double shortest_s = 1.6, longest_s = 5;  // of computing on the fastest device
  double arrivals_s = 18;                  // over which the jobs come
  double least_over_load = 6;              // computing is at least this many times loading
};
DemoSize SizeOf(bool quick);

// Three jobs at 0, the others at uniform times; sizes log-uniform; 3 of 7 jobs are on pairs never
// profiled. In order of arrival.
std::vector<workload::Job> DrawDemoJobs(uint64_t seed, bool quick, const TimeOf& time_of);

}  // namespace hase::live

// Sizing: the cheapest cluster of given types on which a policy meets a trace's deadlines or a
// makespan in the simulated world. Clusters are tried in order of price; those whose lower bound
// already misses the target are not simulated. So the answer is the cheapest for this policy, this
// world and these seeds, not a proof for others.
//
// Left out: prices by commitment or region, node shapes (each type is one pool of cards).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/sim_inputs.h"
#include "base/result.h"

namespace hase::apps {

struct SizeTarget {
  double makespan_s = 0;  // 0: deadlines count
  double miss = 0;        // the part of the jobs with a deadline that may end late
};

struct SizeQuestion {
  std::vector<std::string> types;
  std::vector<double> prices;  // per hour and card, by type; 0 = the catalogue's
  SimFlags sim;                // jobs, world; its cluster is not used
  std::vector<uint64_t> seeds = {1};
  std::string policy = "hase";
  SizeTarget target;
  int most = 64;  // cards in all
};

struct SizeAnswer {
  bool found = false;
  std::vector<std::string> types;
  std::vector<int> counts;  // by type
  double cost_per_hour = 0;
  double makespan_s = 0, deadline_miss = 0;  // the worst of the seeds
  double lower_bound_s = 0;                  // of the first seed
  int64_t looked_at = 0, ruled_out = 0, simulated = 0;
};

// `progress` is told of every cluster that is simulated (counts, price).
Result<SizeAnswer> FindCheapest(
    const SizeQuestion& question,
    const std::function<void(const std::vector<int>&, double)>& progress = {});

}  // namespace hase::apps

// From flags to a SimCase: which files and generators make up a simulation. Shared by `hase
// simulate` and its relatives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "execution/backends/simulated/sim_case.h"

namespace hase::apps {

struct SimFlags {
  std::string cluster_text;                    // in place of the file `cluster`
  std::string cluster, jobs, format = "auto";  // format: auto | openb
  std::string generate;                        // "poisson,jobs=500,load=0.95"
  std::string types;                           // openb: what undisclosed GPU types are
  double load = 0;                             // openb: compress arrivals to this load
  std::string world = "W3";                    // W1 | W2 | W3
  std::string estimates, truth, slowdown, residuals;
  std::string error;  // "LO..HI": each job's true time is multiplied by a factor drawn from it
  std::string faults;
  uint64_t seed = 1;
};

// `seed` in place of flags.seed. Errors name the file or the flag.
Result<std::unique_ptr<execution::SimCase>> BuildSimCase(const SimFlags& flags, uint64_t seed);

// "a,b:k=v,l=w,c" is three policies: a part without a name of its own belongs to the one before.
std::vector<std::string> SplitPolicies(const std::vector<std::string>& texts);

}  // namespace hase::apps

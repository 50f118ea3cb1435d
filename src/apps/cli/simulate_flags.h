// The flags of `hase simulate`.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "apps/sim_inputs.h"
#include "apps/snapshot.h"
#include "base/result.h"

namespace hase::cli {

struct SimulateFlags {
  apps::SimFlags sim;
  std::vector<std::string> policies = {"round-robin", "mct"};
  std::vector<uint64_t> seeds;
  std::string events, decisions, report, snapshot, snapshot_at = "#0";
  std::optional<double> load;
  apps::SnapshotWhen when;
  bool json = false;
};

void AddSimulateFlags(CLI::App& command, SimulateFlags& flags);
// After parsing: splits the policies, reads --snapshot-at, and refuses flags that would not be
// read.
Status CheckSimulateFlags(const CLI::App& command, SimulateFlags& flags);

}  // namespace hase::cli

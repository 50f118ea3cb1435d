// What this machine's counters say of strangers just now, for predictions (`hase predict --load
// live`). Takes a second: two looks at /proc with the probe of the cores asked for at the end.
//
// What the probe takes at rest is remembered in the state folder (probe.json): the least of each
// reading ever seen here. Until something has been seen at rest, memory counts as undisturbed.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "cluster/telemetry/snapshot.h"
#include "latency/cpu_load.h"

namespace hase::live {

class LiveLoad {
 public:
  // Blocks for the interval. Errors: /proc cannot be read, probe.json is damaged.
  static Result<LiveLoad> Take(const std::filesystem::path& state, const std::vector<int>& cores,
                               double interval_s = 1);
  latency::ForeignLoad Of(const std::vector<int>& cores) const;
  const cluster::telemetry::Snapshot& snapshot() const { return snapshot_; }

 private:
  cluster::telemetry::Snapshot snapshot_;
  latency::QuietProbe quiet_;
};

}  // namespace hase::live

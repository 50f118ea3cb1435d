// cpu: how busy each core is, from /proc/stat, and how much memory is used, from /proc/meminfo. A
// poll covers the time since the poll before; the first covers none and its activities are missing.
//
// Where the machine has them and lets us, hardware counters of last-level cache misses give the
// memory traffic (64 bytes a miss; prefetches are not counted, so it is a lower bound), as a part
// of `bandwidth_gb_s`. Virtual machines mostly have none: dram_active is then missing.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "cluster/telemetry/snapshot.h"

namespace hase::cluster::telemetry {

struct CpuOptions {
  std::filesystem::path root = "/";  // before /proc; tests give a copy
  double bandwidth_gb_s = 0;         // of the machine; 0 = traffic is not reported
};

// `now`: seconds on any steady clock.
std::unique_ptr<Source> MakeCpu(const CpuOptions& options, std::function<double()> now);
std::unique_ptr<Source> MakeCpu(const CpuOptions& options);

}  // namespace hase::cluster::telemetry

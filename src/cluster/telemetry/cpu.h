// cpu: how busy each core is, from /proc/stat, and how much memory is used, from /proc/meminfo. A
// poll covers the time since the poll before; the first covers none and its activities are missing.
// With them come the strangers (strangers.h) and, for the cores asked for, a probe's readings
// (core_probe.h), taken at the end of the interval.
//
// Where the machine has them and lets us, hardware counters of last-level cache misses give the
// memory traffic (64 bytes a miss; prefetches are not counted, so it is a lower bound), as a part
// of `bandwidth_gb_s`. Virtual machines mostly have none: dram_active is then missing.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "cluster/telemetry/snapshot.h"

namespace hase::cluster::telemetry {

struct CpuOptions {
  std::filesystem::path root = "/";   // before /proc; tests give a copy
  double bandwidth_gb_s = 0;          // of the machine; 0 = traffic is not reported
  std::vector<int> probe_cores = {};  // each costs a poll 0.1 s of time, 3 ms of the core
  pid_t own = 0;  // whose threads, and descendants', are not strangers; 0 = this process
};

// `now`: seconds on any steady clock.
std::unique_ptr<Source> MakeCpu(const CpuOptions& options, std::function<double()> now);
std::unique_ptr<Source> MakeCpu(const CpuOptions& options);

}  // namespace hase::cluster::telemetry

// The table of telemetry sources. Add one: a file of its own and a row in sources.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/telemetry/snapshot.h"

namespace hase::cluster::telemetry {

struct SourceOptions {
  std::string url;                    // dcgm_exporter
  std::string file;                   // replay
  double stale_after_s = 5;           // dcgm_exporter
  double bandwidth_gb_s = 0;          // cpu
  std::vector<int> probe_cores = {};  // cpu
};

struct SourceKind {
  std::string_view name, help;
  Result<std::unique_ptr<Source>> (*make)(const SourceOptions& options);
};

std::span<const SourceKind> Sources();
// An error lists the names.
Result<std::unique_ptr<Source>> MakeSource(std::string_view name, const SourceOptions& options);

Result<std::unique_ptr<Source>> MakeNvml(const SourceOptions& options);
Result<std::unique_ptr<Source>> MakeReplay(const SourceOptions& options);

// A snapshot as one line of JSON, as replay reads it.
std::string ToJsonLine(const Snapshot& snapshot);
Result<Snapshot> ParseSnapshot(const std::string& where, std::string_view line);

}  // namespace hase::cluster::telemetry

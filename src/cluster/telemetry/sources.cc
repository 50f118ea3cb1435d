#include "cluster/telemetry/sources.h"

#include <fmt/core.h>

#include "cluster/telemetry/cpu.h"
#include "cluster/telemetry/dcgm_exporter.h"

namespace hase::cluster::telemetry {
namespace {

Result<std::unique_ptr<Source>> NewDcgm(const SourceOptions& options) {
  DcgmOptions dcgm;
  if (!options.url.empty()) dcgm.url = options.url;
  dcgm.stale_after_s = options.stale_after_s;
  return MakeDcgmExporter(dcgm);
}

Result<std::unique_ptr<Source>> NewCpu(const SourceOptions& options) {
  CpuOptions cpu;
  cpu.bandwidth_gb_s = options.bandwidth_gb_s;
  cpu.probe_cores = options.probe_cores;
  return MakeCpu(cpu);
}

constexpr SourceKind kSources[] = {
    {"dcgm_exporter", "NVIDIA's Prometheus exporter, by --url", NewDcgm},
    {"nvml", "This machine's NVIDIA driver", MakeNvml},
    {"cpu", "This machine's cores, from /proc and hardware counters", NewCpu},
    {"replay", "Recorded snapshots, by --file", MakeReplay},
};

}  // namespace

std::span<const SourceKind> Sources() { return kSources; }

Result<std::unique_ptr<Source>> MakeSource(std::string_view name, const SourceOptions& options) {
  std::string known;
  for (const auto& kind : kSources) {
    if (kind.name == name) return kind.make(options);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kind.name);
  }
  return Usage(fmt::format("no telemetry source '{}' (known: {})", name, known));
}

}  // namespace hase::cluster::telemetry

#include "apps/cli/machine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "apps/live/setting.h"
#include "base/paths.h"
#include "cluster/cluster_file.h"

namespace hase::cli {

Result<Machine> OpenMachine(const std::string& cluster_file) {
  Machine machine;
  HASE_ASSIGN_OR_RETURN(machine.catalogue, cluster::Catalogue::Load());
  machine.cpu = cluster::DetectCpu();
  machine.fingerprint = live::MachineName();
  if (!cluster_file.empty()) {
    HASE_ASSIGN_OR_RETURN(machine.cluster, cluster::LoadCluster(cluster_file, machine.catalogue,
                                                                cluster::CpuSpec(machine.cpu)));
    return machine;
  }
  auto gpus = cluster::DetectGpus(machine.catalogue);
  if (!gpus) machine.no_gpu = gpus.error().message;
  machine.cluster =
      cluster::LocalCluster(gpus ? *gpus : std::vector<cluster::DetectedGpu>(), machine.cpu);
  return machine;
}

Result<latency::SampleStore> OpenSamples(const std::string& state, const Machine& machine) {
  HASE_ASSIGN_OR_RETURN(const auto dir, StateDir(state));
  return latency::SampleStore::Open(dir / "samples.db", machine.fingerprint);
}

Status TakeMeasuredBenches(Machine& machine, const latency::SampleStore& store) {
  for (auto& type : machine.cluster.types) {
    HASE_ASSIGN_OR_RETURN(const auto bench, store.Bench(type.name));
    if (bench) type.bench = *bench;
  }
  return {};
}

Result<std::vector<latency::Sample>> ReadMeasured(const std::string& state, Machine& machine) {
  HASE_ASSIGN_OR_RETURN(const auto folder, StatePath(state));
  return live::ReadMeasured(folder, machine.cluster.types);
}

Result<execution::Partition> PartitionOf(const cluster::Cluster& cluster,
                                         const cluster::Device& device) {
  const auto& type = cluster.types[device.type.index()];
  if (type.spec.kind != cluster::DeviceKind::kCpu) {
    return Usage(fmt::format("{} is a {}: only CPU partitions of this machine can be measured here",
                             device.name, type.name));
  }
  return execution::Partition::Make({.cores = device.cpu_cores, .quota = type.quota});
}

Result<DeviceId> FindDevice(const cluster::Cluster& cluster, const std::string& name) {
  for (const auto& device : cluster.devices) {
    if (device.name == name) return device.id;
  }
  for (const auto& device : cluster.devices) {
    if (cluster::NamesType(name, cluster.types[device.type.index()])) return device.id;
  }
  std::string known;
  for (const auto& type : cluster.types) known += (known.empty() ? "" : ", ") + type.name;
  return Usage(fmt::format("no device '{}' in the cluster (types: {})", name, known));
}

int CoreClockMhz(int core) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", core));
  if (int64_t khz = 0; file >> khz) return static_cast<int>(khz / 1000);
  std::ifstream info("/proc/cpuinfo");
  int at = -1;
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.starts_with("processor")) at = std::atoi(line.c_str() + colon + 1);
    if (line.starts_with("cpu MHz") && at == core) {
      return static_cast<int>(std::lround(std::atof(line.c_str() + colon + 1)));
    }
  }
  return 0;
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && width_ > 0) fmt::print(stderr, "\r{:{}}\r", "", width_);
}

void Progress::Show(const std::string& line) {
  if (!terminal_) return;
  fmt::print(stderr, "\r{:<{}}", line, std::max(width_, line.size()));
  std::fflush(stderr);
  width_ = std::max(width_, line.size());
}

}  // namespace hase::cli

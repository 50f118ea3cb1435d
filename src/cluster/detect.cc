#include "cluster/detect.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include "cluster/cluster_file.h"
#include "cluster/micro_benchmarks.h"
#include "cluster/nvml.h"

namespace hase::cluster {
namespace {
namespace fs = std::filesystem;

std::string Slurp(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::optional<int64_t> Integer(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "key<spaces>: value" of the first such line; empty if none.
std::string FieldOf(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// Our control group under one v1 controller, or under v2 (controller empty).
std::string GroupOf(const std::string& memberships, std::string_view controller) {
  std::istringstream lines(memberships);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool match = controller.empty()
                           ? names == ",,"
                           : names.find(fmt::format(",{},", controller)) != std::string::npos;
    if (match) return line.substr(second + 1);
  }
  return "";
}

// Limits apply along the whole path to the root, so each level is looked at and the least wins.
// Inside a container the path may not exist below the mount; then only the mount itself counts.
std::vector<fs::path> Levels(const fs::path& mount, std::string group) {
  std::vector<fs::path> levels;
  while (group.size() > 1) {
    levels.push_back(mount / group.substr(1));
    group = group.substr(0, group.rfind('/'));
  }
  levels.push_back(mount);
  return levels;
}

void ReadLimits(const fs::path& root, HostCpu& cpu) {
  const std::string memberships = Slurp(root / "proc/self/cgroup");
  const fs::path base = root / "sys/fs/cgroup";
  const auto limit_cpu = [&](double cpus, std::string source) {
    if (cpus > 0 && (cpu.cpu_limit == 0 || cpus < cpu.cpu_limit)) {
      cpu.cpu_limit = cpus;
      cpu.cpu_limit_source = std::move(source);
    }
  };
  const auto limit_memory = [&](std::optional<int64_t> bytes) {
    if (bytes && *bytes > 0 && (cpu.memory.value() == 0 || *bytes < cpu.memory.value())) {
      cpu.memory = Bytes(*bytes);
    }
  };
  for (const auto& level : Levels(base, GroupOf(memberships, ""))) {
    const std::string text = Slurp(level / "cpu.max");
    const auto quota = Integer(text);
    const size_t space = text.find(' ');
    const auto period = space == std::string::npos ? std::nullopt : Integer(text.substr(space));
    if (quota && period && *period > 0) {
      limit_cpu(static_cast<double>(*quota) / static_cast<double>(*period), "cgroup v2");
    }
    limit_memory(Integer(Slurp(level / "memory.max")));
  }
  for (const auto& level : Levels(base / "cpu", GroupOf(memberships, "cpu"))) {
    const auto quota = Integer(Slurp(level / "cpu.cfs_quota_us"));
    const auto period = Integer(Slurp(level / "cpu.cfs_period_us"));
    if (quota && period && *quota > 0 && *period > 0) {
      limit_cpu(static_cast<double>(*quota) / static_cast<double>(*period), "cgroup v1");
    }
  }
  for (const auto& level : Levels(base / "memory", GroupOf(memberships, "memory"))) {
    limit_memory(Integer(Slurp(level / "memory.limit_in_bytes")));
  }
}

std::vector<int> UsableCores(const fs::path& root) {
  const auto allowed = CoreList(FieldOf(Slurp(root / "proc/self/status"), "Cpus_allowed_list"));
  if (!allowed.empty()) return allowed;
  const auto online = CoreList(Slurp(root / "sys/devices/system/cpu/online"));
  return online.empty() ? std::vector<int>{0} : online;
}

Bytes LastLevelCache(const fs::path& root) {
  int64_t largest = 0;
  for (int i = 0; i < 8; ++i) {
    const auto dir = root / fmt::format("sys/devices/system/cpu/cpu0/cache/index{}", i);
    const std::string size = Slurp(dir / "size");
    if (const auto value = Integer(size)) {
      const int64_t unit = size.find('M') != std::string::npos ? 1 << 20 : 1 << 10;
      largest = std::max(largest, *value * unit);
    }
  }
  return Bytes(largest);
}

DeviceSpec SpecOfUnknown(const NvmlCard& card) {
  DeviceSpec spec;
  spec.name = card.name;
  spec.vendor = "NVIDIA";
  spec.compute_capability = card.compute_capability;
  spec.memory = card.memory;
  spec.boost_clock_mhz = card.max_sm_clock_mhz.value_or(0);
  return spec;
}

void AddPartition(Cluster& cluster, const DeviceSpec& cpu, std::vector<int> cores,
                  MilliShare quota) {
  DeviceType type = CpuPartitionType(cpu, static_cast<int>(cores.size()), quota);
  Device device;
  device.id = DeviceId(static_cast<uint32_t>(cluster.devices.size()));
  device.name = fmt::format("{}/{}", cluster.nodes[0].name, device.id.index());
  device.node = cluster.nodes[0].id;
  device.modes = EnforceableModes(type.spec);
  device.cpu_cores = std::move(cores);
  device.type = DeviceTypeId(static_cast<uint32_t>(cluster.types.size()));
  cluster.types.push_back(std::move(type));
  cluster.devices.push_back(std::move(device));
}

void AddGpus(Cluster& cluster, const std::vector<DetectedGpu>& gpus) {
  std::map<std::string, DeviceTypeId> types;
  const auto add = [&](const DeviceSpec& spec, std::vector<ShareMode> modes) {
    const DeviceTypeId next(static_cast<uint32_t>(cluster.types.size()));
    const auto [at, fresh] = types.emplace(spec.name, next);
    if (fresh) {
      DeviceType type;
      type.spec = spec;
      type.name = spec.name;
      type.bench = EstimateMicroBenchmarks(spec);
      cluster.types.push_back(std::move(type));
    }
    Device device;
    device.id = DeviceId(static_cast<uint32_t>(cluster.devices.size()));
    device.name = fmt::format("{}/{}", cluster.nodes[0].name, device.id.index());
    device.node = cluster.nodes[0].id;
    device.type = at->second;
    device.modes = std::move(modes);
    device.price_per_hour = spec.price_per_hour;
    cluster.devices.push_back(std::move(device));
  };
  for (const auto& gpu : gpus) {
    if (gpu.mig_enabled) {  // a card that is split cannot be used whole
      for (const auto& profile : gpu.mig_profiles) {
        if (const auto part = MigInstance(gpu.spec, profile)) add(*part, EnforceableModes(*part));
      }
      continue;
    }
    auto modes = EnforceableModes(gpu.spec);
    std::erase(modes, ShareMode::kMig);
    add(gpu.spec, std::move(modes));
  }
}

}  // namespace

std::vector<int> CoreList(std::string_view text) {
  std::vector<int> cores;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front()))) {
    int first = 0, last = 0;
    auto [p, code] = std::from_chars(text.data(), text.data() + text.size(), first);
    last = first;
    text.remove_prefix(static_cast<size_t>(p - text.data()));
    if (text.starts_with('-')) {
      auto [q, code2] = std::from_chars(text.data() + 1, text.data() + text.size(), last);
      text.remove_prefix(static_cast<size_t>(q - text.data()));
    }
    for (int core = first; core <= last && core < 4096; ++core) cores.push_back(core);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return cores;
}

HostCpu DetectCpu(const fs::path& root) {
  HostCpu cpu;
  const std::string info = Slurp(root / "proc/cpuinfo");
  cpu.model = FieldOf(info, "model name");
  if (cpu.model.empty()) cpu.model = "unknown CPU";
  const std::string flags = " " + FieldOf(info, "flags") + " ";
  const auto has = [&](const char* flag) {
    return flags.find(fmt::format(" {} ", flag)) != std::string::npos;
  };
  cpu.avx2 = has("avx2");
  cpu.avx512 = has("avx512f");
  cpu.vnni = has("avx512_vnni") || has("avx_vnni");
  cpu.base_mhz = static_cast<int>(Integer(FieldOf(info, "cpu MHz")).value_or(0));
  if (const auto khz =
          Integer(Slurp(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))) {
    cpu.base_mhz = static_cast<int>(*khz / 1000);
  }
  cpu.cores = UsableCores(root);
  cpu.memory = Bytes(Integer(FieldOf(Slurp(root / "proc/meminfo"), "MemTotal")).value_or(0) * 1024);
  cpu.last_level_cache = LastLevelCache(root);
  ReadLimits(root, cpu);
  return cpu;
}

DeviceSpec CpuSpec(const HostCpu& cpu) {
  DeviceSpec spec;
  spec.name = "cpu";
  spec.aliases = {cpu.model};
  spec.kind = DeviceKind::kCpu;
  spec.vendor = cpu.model.substr(0, cpu.model.find_first_of(" ("));
  spec.architecture = cpu.avx512 ? "avx512" : cpu.avx2 ? "avx2" : "sse";
  spec.sm_count = static_cast<int>(cpu.cores.size());
  spec.cores_per_sm = 1;
  spec.base_clock_mhz = spec.boost_clock_mhz = cpu.base_mhz > 0 ? cpu.base_mhz : 2000;
  spec.memory = cpu.memory;
  spec.l2 = cpu.last_level_cache;
  // Two vector units of fused multiply-add per core; clocks may boost above the stated one.
  const double lanes = cpu.avx512 ? 16 : cpu.avx2 ? 8 : 4;
  const double boost = 1.5;
  const double fp32 = spec.sm_count * lanes * 2 * 2 * spec.boost_clock_mhz * 1e-6 * boost;
  spec.peak_tflops[static_cast<size_t>(model::Precision::kFp32)] = fp32;
  spec.peak_tflops[static_cast<size_t>(model::Precision::kInt8)] = fp32 * (cpu.vnni ? 4 : 1);
  spec.bandwidth_gb_s = std::min(60.0, 12.0 * spec.sm_count);
  return spec;
}

Result<std::vector<DetectedGpu>> DetectGpus(const Catalogue& catalogue) {
  HASE_ASSIGN_OR_RETURN(const Nvml nvml, Nvml::Open());
  HASE_ASSIGN_OR_RETURN(const auto cards, nvml.Cards());
  std::vector<DetectedGpu> gpus;
  for (const auto& card : cards) {
    DetectedGpu gpu;
    gpu.index = card.index;
    gpu.uuid = card.uuid;
    gpu.reported_name = card.name;
    gpu.mig_enabled = card.mig_enabled;
    for (const auto& mig : card.migs) gpu.mig_profiles.push_back(mig.profile);
    auto spec = catalogue.Find(card.name);
    gpu.in_catalogue = spec.has_value();
    gpu.spec = spec ? std::move(*spec) : SpecOfUnknown(card);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Cluster LocalCluster(const std::vector<DetectedGpu>& gpus, const HostCpu& cpu) {
  Cluster cluster;
  cluster.nodes.push_back({NodeId(0), "local", static_cast<int>(cpu.cores.size()), cpu.memory});
  AddGpus(cluster, gpus);
  if (!cluster.devices.empty()) return cluster;
  const DeviceSpec spec = CpuSpec(cpu);
  const auto half = static_cast<std::ptrdiff_t>((cpu.cores.size() + 1) / 2);
  const std::vector<int> first(cpu.cores.begin(), cpu.cores.begin() + half);
  const std::vector<int> rest(cpu.cores.begin() + half, cpu.cores.end());
  if (!rest.empty()) AddPartition(cluster, spec, first, kWholeDevice);
  AddPartition(cluster, spec, rest.empty() ? first : rest, MilliShare(600));
  AddPartition(cluster, spec, rest.empty() ? first : rest, MilliShare(300));
  return cluster;
}

}  // namespace hase::cluster

#include "cluster/cluster_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

#include "base/yaml.h"
#include "cluster/micro_benchmarks.h"

namespace hase::cluster {
namespace {

using model::Runtime;

// One entry of a node's `devices`, checked.
struct Entry {
  DeviceTypeId type;
  int64_t count = 1;
  std::vector<ShareMode> modes;
  std::vector<int> cores;
  double price_per_hour = 0;
};

class Reader {
 public:
  Reader(const Catalogue& catalogue, const DeviceSpec& cpu) : catalogue_(catalogue), cpu_(cpu) {}

  Result<Cluster> Read(const Yaml& document) {
    HASE_RETURN_IF_ERROR(document.CheckKeys({"nodes"}));
    HASE_ASSIGN_OR_RETURN(const Yaml list, document.Get("nodes"));
    HASE_ASSIGN_OR_RETURN(const auto nodes, list.Items());
    for (const Yaml& node : nodes) HASE_RETURN_IF_ERROR(ReadNode(node));
    if (cluster_.devices.empty()) {
      return Invalid(fmt::format("{}: the cluster has no device", list.Where()));
    }
    return std::move(cluster_);
  }

 private:
  Status ReadNode(const Yaml& node) {
    HASE_RETURN_IF_ERROR(
        node.CheckKeys({"name", "count", "host_cores", "host_memory_gib", "devices"}));
    HASE_ASSIGN_OR_RETURN(const std::string name, node.Text("name"));
    HASE_ASSIGN_OR_RETURN(const int64_t count, AtLeast(node, "count", 1, 1));
    HASE_ASSIGN_OR_RETURN(const int64_t host_cores, AtLeast(node, "host_cores", 0, 0));
    HASE_ASSIGN_OR_RETURN(const double memory_gib, node.NumberOr("host_memory_gib", 0));
    if (memory_gib < 0 || memory_gib > 1e9) {
      return Invalid(fmt::format("{}: host_memory_gib {} is out of range",
                                 node.Find("host_memory_gib")->Where(), memory_gib));
    }
    if (name.empty() || name.find_first_of("/ \t\n,|") != std::string::npos) {
      return Invalid(
          fmt::format("{}: node name '{}' must not be empty nor hold '/', ',', '|' or "
                      "white space",
                      node.Get("name")->Where(), name));
    }
    HASE_ASSIGN_OR_RETURN(const Yaml list, node.Get("devices"));
    HASE_ASSIGN_OR_RETURN(const auto items, list.Items());
    std::vector<Entry> entries;
    int64_t per_node = 0;
    for (const Yaml& item : items) {
      HASE_ASSIGN_OR_RETURN(Entry entry, ReadEntry(item, host_cores));
      per_node += entry.count;
      entries.push_back(std::move(entry));
    }
    const auto known = static_cast<int64_t>(cluster_.devices.size());
    if (count > kMaxDevices || per_node > kMaxDevices || known + count * per_node > kMaxDevices) {
      return Invalid(
          fmt::format("{}: more than {} devices in the cluster", node.Where(), kMaxDevices));
    }
    for (int64_t i = 0; i < count; ++i) {
      const std::string full = count == 1 ? name : fmt::format("{}-{}", name, i);
      if (!names_.insert(full).second) {
        return Invalid(
            fmt::format("{}: two nodes are called '{}'", node.Get("name")->Where(), full));
      }
      AddNode(full, static_cast<int>(host_cores), Scale(GiB(1), memory_gib), entries);
    }
    return {};
  }

  Result<Entry> ReadEntry(const Yaml& item, int64_t host_cores) {
    HASE_RETURN_IF_ERROR(
        item.CheckKeys({"type", "count", "runtime", "modes", "cores", "quota", "price_per_hour"}));
    HASE_ASSIGN_OR_RETURN(const std::string type_name, item.Text("type"));
    Entry entry;
    HASE_ASSIGN_OR_RETURN(entry.count, AtLeast(item, "count", 1, 1));
    if (entry.count > kMaxDevices) {
      return Invalid(
          fmt::format("{}: more than {} devices in the cluster", item.Where(), kMaxDevices));
    }
    DeviceType type;
    if (type_name == "cpu") {
      HASE_ASSIGN_OR_RETURN(type, ReadCpu(item, host_cores, entry));
    } else {
      for (const auto key : {"cores", "quota"}) {
        if (const auto value = item.Find(key)) {
          return Invalid(fmt::format("{}: '{}' is for type cpu only", value->Where(), key));
        }
      }
      auto spec = catalogue_.Find(type_name);
      if (!spec) {
        return Invalid(fmt::format("{}: {}", item.Get("type")->Where(), spec.error().message));
      }
      type.spec = std::move(*spec);
      type.bench = EstimateMicroBenchmarks(type.spec);
      type.name = type.spec.name;
      type.runtime = Runtime::kOrtCuda;
    }
    HASE_RETURN_IF_ERROR(ReadRuntime(item, type));
    HASE_ASSIGN_OR_RETURN(entry.modes, ReadModes(item, type.spec));
    HASE_ASSIGN_OR_RETURN(entry.price_per_hour,
                          item.NumberOr("price_per_hour", type.spec.price_per_hour));
    if (entry.price_per_hour < 0) {
      return Invalid(
          fmt::format("{}: price_per_hour is negative", item.Get("price_per_hour")->Where()));
    }
    entry.type = Intern(std::move(type));
    return entry;
  }

  Result<DeviceType> ReadCpu(const Yaml& item, int64_t host_cores, Entry& entry) {
    HASE_ASSIGN_OR_RETURN(const Yaml list, item.Get("cores"));
    HASE_ASSIGN_OR_RETURN(const auto cores, list.Items());
    for (const Yaml& core : cores) {
      HASE_ASSIGN_OR_RETURN(const int64_t number, core.Integer());
      if (number < 0 || number > 4095 || (host_cores > 0 && number >= host_cores)) {
        return Invalid(
            fmt::format("{}: there is no core {}{}", core.Where(), number,
                        host_cores > 0 ? fmt::format(" (host_cores: {})", host_cores) : ""));
      }
      if (std::count(entry.cores.begin(), entry.cores.end(), number) > 0) {
        return Invalid(fmt::format("{}: core {} twice in one partition", core.Where(), number));
      }
      entry.cores.push_back(static_cast<int>(number));
    }
    if (entry.cores.empty()) {
      return Invalid(fmt::format("{}: a CPU partition needs at least one core", list.Where()));
    }
    HASE_ASSIGN_OR_RETURN(const double quota, item.NumberOr("quota", 1));
    const MilliShare share = quota > 0 && quota <= 1 ? ShareFromFraction(quota) : MilliShare(0);
    if (share.value() < 1) {
      return Invalid(fmt::format("{}: quota {} is outside (0, 1] (thousandths at least)",
                                 item.Get("quota")->Where(), quota));
    }
    return CpuPartitionType(cpu_, static_cast<int>(entry.cores.size()), share);
  }

  static Status ReadRuntime(const Yaml& item, DeviceType& type) {
    const auto value = item.Find("runtime");
    if (!value) return {};
    HASE_ASSIGN_OR_RETURN(const std::string text, value->Text());
    auto runtime = model::ParseRuntime(text);
    if (!runtime) return Invalid(fmt::format("{}: {}", value->Where(), runtime.error().message));
    if ((type.spec.kind == DeviceKind::kCpu) != (*runtime == Runtime::kOrtCpu)) {
      return Invalid(
          fmt::format("{}: {} does not run by {}", value->Where(), type.spec.name, text));
    }
    if (*runtime != type.runtime) type.name += fmt::format("/{}", text);
    type.runtime = *runtime;
    return {};
  }

  static Result<std::vector<ShareMode>> ReadModes(const Yaml& item, const DeviceSpec& spec) {
    const auto possible = EnforceableModes(spec);
    const auto list = item.Find("modes");
    if (!list) {
      auto modes = possible;
      std::erase(modes, ShareMode::kMig);  // cutting a card is asked for, never assumed
      return modes;
    }
    std::vector<ShareMode> modes = {ShareMode::kExclusive};
    HASE_ASSIGN_OR_RETURN(const auto items, list->Items());
    for (const Yaml& value : items) {
      HASE_ASSIGN_OR_RETURN(const std::string text, value.Text());
      auto mode = ParseShareMode(text);
      if (!mode) return Invalid(fmt::format("{}: {}", value.Where(), mode.error().message));
      if (std::find(possible.begin(), possible.end(), *mode) == possible.end()) {
        return Invalid(fmt::format(
            "{}: {} cannot enforce {}{}", value.Where(), spec.name, text,
            *mode == ShareMode::kMps ? " shares (they need compute capability 7.0)" : ""));
      }
      if (std::find(modes.begin(), modes.end(), *mode) == modes.end()) modes.push_back(*mode);
    }
    return modes;
  }

  static Result<int64_t> AtLeast(const Yaml& map, std::string_view key, int64_t least,
                                 int64_t fallback) {
    HASE_ASSIGN_OR_RETURN(const int64_t value, map.IntegerOr(key, fallback));
    if (value >= least && value <= 1'000'000'000) return value;
    return Invalid(fmt::format("{}: {} must be at least {}, not {}", map.Find(key)->Where(), key,
                               least, value));
  }

  DeviceTypeId Intern(DeviceType type) {
    const auto next = static_cast<uint32_t>(cluster_.types.size());
    const auto [at, fresh] = types_.emplace(type.name, next);
    if (fresh) cluster_.types.push_back(std::move(type));
    return DeviceTypeId(at->second);
  }

  void AddNode(const std::string& name, int host_cores, Bytes memory,
               const std::vector<Entry>& entries) {
    const NodeId node(static_cast<uint32_t>(cluster_.nodes.size()));
    cluster_.nodes.push_back({node, name, host_cores, memory});
    int index = 0;
    for (const Entry& entry : entries) {
      for (int64_t i = 0; i < entry.count; ++i) {
        Device device;
        device.id = DeviceId(static_cast<uint32_t>(cluster_.devices.size()));
        device.name = fmt::format("{}/{}", name, index++);
        device.type = entry.type;
        device.node = node;
        device.modes = entry.modes;
        device.cpu_cores = entry.cores;
        device.price_per_hour = entry.price_per_hour;
        cluster_.devices.push_back(std::move(device));
      }
    }
  }

  const Catalogue& catalogue_;
  const DeviceSpec& cpu_;
  Cluster cluster_;
  std::set<std::string> names_;
  std::unordered_map<std::string, uint32_t> types_;
};

std::string FormatEntry(const Cluster& cluster, const Device& device) {
  const DeviceType& type = cluster.types[device.type.index()];
  std::string text = "{type: ";
  if (type.spec.kind == DeviceKind::kCpu) {
    std::string cores;
    for (const int core : device.cpu_cores)
      cores += fmt::format("{}{}", cores.empty() ? "" : ", ", core);
    text += fmt::format("cpu, cores: [{}], quota: {:g}", cores, ToFraction(type.quota));
  } else {
    std::string modes;
    for (const ShareMode mode : device.modes) {
      modes += fmt::format("{}{}", modes.empty() ? "" : ", ", ToString(mode));
    }
    text += fmt::format("{}, runtime: {}, modes: [{}]", type.spec.name,
                        model::ToString(type.runtime), modes);
  }
  if (device.price_per_hour > 0)
    text += fmt::format(", price_per_hour: {:g}", device.price_per_hour);
  return text + "}";
}

}  // namespace

std::string CpuPartitionName(int cores, MilliShare quota) {
  return fmt::format("cpu-{}c-q{:g}", cores, ToFraction(quota));
}

DeviceType CpuPartitionType(const DeviceSpec& cpu, int cores, MilliShare quota) {
  DeviceType type;
  type.spec = cpu;
  type.spec.kind = DeviceKind::kCpu;
  type.name = type.spec.name = CpuPartitionName(cores, quota);
  const double part = cpu.sm_count > 0 ? std::min(1.0, 1.0 * cores / cpu.sm_count) : 1.0;
  for (double& peak : type.spec.peak_tflops) peak *= part;
  type.spec.sm_count = cores;
  type.runtime = Runtime::kOrtCpu;
  type.cores = cores;
  type.quota = quota;
  type.bench = EstimateMicroBenchmarks(type.spec);
  return type;
}

Result<Cluster> ParseCluster(std::string file_name, const std::string& text,
                             const Catalogue& catalogue, const DeviceSpec& cpu) {
  HASE_ASSIGN_OR_RETURN(const Yaml document, Yaml::Parse(std::move(file_name), text));
  return Reader(catalogue, cpu).Read(document);
}

Result<Cluster> LoadCluster(const std::string& path, const Catalogue& catalogue,
                            const DeviceSpec& cpu) {
  HASE_ASSIGN_OR_RETURN(const Yaml document, Yaml::Load(path));
  return Reader(catalogue, cpu).Read(document);
}

std::string FormatCluster(const Cluster& cluster) {
  std::string text = "nodes:\n";
  for (const Node& node : cluster.nodes) {
    text += fmt::format("  - name: {}\n", node.name);
    if (node.host_cores > 0) text += fmt::format("    host_cores: {}\n", node.host_cores);
    if (node.host_memory.value() > 0) {
      text += fmt::format("    host_memory_gib: {:g}\n", Ratio(node.host_memory, GiB(1)));
    }
    text += "    devices:\n";
    for (const Device& device : cluster.devices) {
      if (device.node == node.id) text += fmt::format("      - {}\n", FormatEntry(cluster, device));
    }
  }
  return text;
}

bool NamesType(std::string_view wish, const DeviceType& type) {
  const std::string wanted = NormalisedDeviceName(wish);
  if (wanted.empty()) return false;
  if (wanted == NormalisedDeviceName(type.name)) return true;
  for (const auto& alias : type.spec.aliases) {
    if (wanted == NormalisedDeviceName(alias)) return true;
  }
  for (size_t i = 1; i < type.name.size(); ++i) {
    const bool boundary = !std::isalnum(static_cast<unsigned char>(type.name[i]));
    if (boundary && wanted == NormalisedDeviceName(type.name.substr(0, i))) return true;
  }
  return false;
}

}  // namespace hase::cluster

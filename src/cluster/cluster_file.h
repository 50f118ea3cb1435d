// cluster.yaml: what the cluster consists of (docs/formats.md, "cluster.yaml").
//
//   nodes:
//     - name: gpu                  # with count > 1: gpu-0, gpu-1, …
//       count: 2
//       host_cores: 16
//       host_memory_gib: 128
//       devices:
//         - {type: T4, count: 2, runtime: ort-cuda, modes: [mps], price_per_hour: 0.35}
//         - {type: cpu, cores: [0, 1], quota: 0.6}
//
// A device is called node/index. Devices that predict alike share one entry of Cluster::types.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/catalogue.h"
#include "cluster/device.h"

namespace hase::cluster {

constexpr int64_t kMaxDevices = 100'000;

// `cpu` is the specification that CPU partitions take (detect.h: this machine's). Every error names
// file, line and column: an unknown device or key, no node or device, a count below 1, a quota
// outside (0, 1], two nodes of one name, a core twice or beyond host_cores, a mode the device
// cannot enforce, more than kMaxDevices devices.
Result<Cluster> ParseCluster(std::string file_name, const std::string& text,
                             const Catalogue& catalogue, const DeviceSpec& cpu);
Result<Cluster> LoadCluster(const std::string& path, const Catalogue& catalogue,
                            const DeviceSpec& cpu);

// "cpu-2c-q0.6": the type name of a CPU partition.
std::string CpuPartitionName(int cores, MilliShare quota);
// A partition's type: the CPU's compute and launch vector stay those of the whole cores; `cores`
// and `quota` say what is there of them. Peaks and memory are scaled to the cores.
DeviceType CpuPartitionType(const DeviceSpec& cpu, int cores, MilliShare quota);

// The file that describes `cluster` again, node by node.
std::string FormatCluster(const Cluster& cluster);

// Whether a job's wish ("V100", "cpu", "cpu-1c-q0.6", "NVIDIA A100-SXM4-80GB") names this type: its
// name, an alias, or a whole leading part of its name ("V100" names V100-SXM2-16GB, "A10" does not
// name A100).
bool NamesType(std::string_view wish, const DeviceType& type);

}  // namespace hase::cluster

// What this machine offers: its GPUs (NVIDIA's management library, loaded at run time so that HASE
// needs no driver to build or start) and its CPU (/proc, /sys, control groups).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/catalogue.h"
#include "cluster/device.h"

namespace hase::cluster {

struct HostCpu {
  std::string model;       // "Intel(R) Xeon(R) Processor"
  std::vector<int> cores;  // that this process may use, ascending
  int base_mhz = 0;        // 0 = not stated
  bool avx2 = false, avx512 = false, vnni = false;
  Bytes memory;  // of the machine, or of our control group if that is less
  Bytes last_level_cache;
  double cpu_limit = 0;          // CPUs the control group grants; 0 = no limit
  std::string cpu_limit_source;  // "cgroup v1 /docker/…", empty if no limit
};

// "0-3,7" → 0 1 2 3 7, up to the first thing that is no number.
std::vector<int> CoreList(std::string_view text);

// `root` stands before /proc and /sys (tests give a copy). Missing files are unknowns, not errors.
HostCpu DetectCpu(const std::filesystem::path& root = "/");

// The CPU as a device specification: one "SM" per core, peaks from clock × vector width × two FMA
// units (an upper bound), memory of the host. Bandwidth is a guess (12 GB/s a core, 60 at most)
// until `hase bench` has measured it.
DeviceSpec CpuSpec(const HostCpu& cpu);

struct DetectedGpu {
  int index = 0;
  std::string uuid, reported_name;
  DeviceSpec spec;  // from the catalogue, or what the driver says if the card is not in it
  bool in_catalogue = false;
  bool mig_enabled = false;
  std::vector<std::string> mig_profiles;  // of the instances now there: "3g.40gb"
};

// Error: no library, no driver, or a driver that answers with an error; the message says what to
// do.
Result<std::vector<DetectedGpu>> DetectGpus(const Catalogue& catalogue);

// The cluster of this machine: its GPUs if it has any; else CPU partitions of quota 1.0 / 0.6 / 0.3
// over its cores: the first half (rounded up) of the cores whole, the other half's time cut in two.
// One core: 0.6 and 0.3 of it.
Cluster LocalCluster(const std::vector<DetectedGpu>& gpus, const HostCpu& cpu);

}  // namespace hase::cluster

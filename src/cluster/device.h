// What the cluster consists of. A DeviceSpec is what a data sheet says, a MicroBenchmarks vector
// what the device itself said when asked, a DeviceType the pair of them with a runtime: devices of
// one type predict alike. A Device is one card (or one CPU partition: cores × quota) on a node.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "model/kernel.h"

namespace hase::cluster {

enum class DeviceKind : uint8_t { kGpu, kCpu };
enum class ShareMode : uint8_t { kExclusive, kTimeSlice, kMps, kMig, kCpuQuota };
std::string_view ToString(ShareMode mode);  // "exclusive", "time-slice", "mps", "mig", "cpu-quota"
Result<ShareMode> ParseShareMode(std::string_view text);

struct DeviceSpec {
  std::string name;  // catalogue name: "A100-SXM4-80GB"
  std::vector<std::string>
      aliases;  // names that NVML, DCGM, Kubernetes labels and data sets report
  DeviceKind kind = DeviceKind::kGpu;
  std::string vendor, architecture;
  int compute_capability = 0;  // 10 · major + minor; 0 for CPUs and other vendors
  int sm_count = 0;            // CUs on AMD, cores on CPUs
  int cores_per_sm = 0;
  int base_clock_mhz = 0, boost_clock_mhz = 0;
  Bytes memory;
  double bandwidth_gb_s = 0;  // DRAM
  Bytes l2;
  // Dense peak in TFLOP/s at boost clock by Precision's order; 0 = not supported.
  std::array<double, 5> peak_tflops = {};
  double pcie_gb_s = 0;       // one direction
  double price_per_hour = 0;  // 0 = unknown
  bool verified = false;      // compared with a data sheet by hand
};

// Measured on the device through ONNX Runtime, or estimated from the specification.
struct MicroBenchmarks {
  bool measured = false;
  std::string date;  // ISO 8601, empty if estimated
  int sm_clock_mhz = 0, memory_clock_mhz = 0;
  // Achieved GFLOP/s.
  double gemm_small = 0, gemm_medium = 0, gemm_large = 0;  // 128³, 512³, 2048³ (CPU: 1024³)
  double conv3x3 = 0, conv1x1 = 0, depthwise = 0;
  // Achieved GB/s of copies that fit cache (1 MiB), are around it (16 MiB), and pass it (256 MiB).
  double copy_small = 0, copy_medium = 0, copy_large = 0;
  double launch_us = 0;            // time of an empty kernel
  double host_to_device_gb_s = 0;  // CPU: memcpy
};

struct DeviceType {
  DeviceSpec spec;
  MicroBenchmarks bench;
  model::Runtime runtime = model::Runtime::kOrtCuda;
  // A CPU partition: how many cores and which part of them (1000 = all their time).
  int cores = 0;
  MilliShare quota = kWholeDevice;
  std::string name;  // as printed: "T4", "cpu-2c-q0.6"
};

struct Device {
  DeviceId id;
  std::string name;  // node/index
  DeviceTypeId type;
  NodeId node;
  std::vector<ShareMode> modes;  // what it can enforce; exclusive is always possible
  std::optional<DeviceId> mig_parent;
  std::vector<int> cpu_cores;  // kCpu: which cores
  double price_per_hour = 0;
};

struct Node {
  NodeId id;
  std::string name;
  int host_cores = 0;  // 0 = not counted
  Bytes host_memory;   // 0 = not counted
};

struct Cluster {
  std::vector<Node> nodes;
  std::vector<DeviceType> types;
  std::vector<Device> devices;  // devices[i].id.index() == i
};

}  // namespace hase::cluster

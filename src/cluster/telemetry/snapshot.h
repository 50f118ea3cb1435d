// Snapshot: what one telemetry source says of its devices now. Telemetry can be missing, stale or
// wrong, so every reading carries its age and a verdict, and nothing reads a value without asking.
//
// Units: activity and occupancy are fractions 0–1, rates MB/s, memory MiB, clocks MHz, power W.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hase::cluster::telemetry {

enum class Counter : uint8_t {
  kSmActive,
  kSmOccupancy,
  kTensorActive,
  kDramActive,
  kPcieTx,
  kPcieRx,
  kMemoryUsed,
  kMemoryFree,
  kSmClock,
  kMemoryClock,
  kPower,
  kThrottleReasons,  // the driver's bit mask
  kXid,              // the last XID error, 0 = none
  kGpuBusy,          // part of the time in which any kernel ran: an upper bound of SM activity
  kMemoryBusy,       // part of the time in which the memory interface was used
  // What a small probe of our own took on this core (cpu source), against nothing but itself.
  kProbeCompute,  // ns per step of arithmetic in registers
  kProbeStream,   // ns per KiB read from memory in order
  kProbeLatency,  // ns per dependent read from memory
};
constexpr size_t kCounters = 18;
std::string_view ToString(Counter counter);  // "sm_active", "memory_used_mib" …

enum class Validity : uint8_t {
  kOk,
  kStale,          // older than the limit
  kMissing,        // not exported, or the exporter's "blank"
  kNotANumber,     // NaN or infinite
  kZeroed,         // a profiling counter at zero on a card that is busy
  kContradictory,  // out of range, or two different values for one device
};
std::string_view ToString(Validity validity);  // "ok", "stale" …

struct Reading {
  double value = 0;
  double age_s = 0;
  Validity validity = Validity::kMissing;
  bool ok() const { return validity == Validity::kOk; }
};

struct DeviceReadings {
  std::string device;  // "GPU-…", "GPU-…/7" for MIG instance 7, "cpu1" for a core
  int index = 0;       // of the card or core
  std::string model, mig_profile, host;
  std::vector<std::string> tenants;  // pods that share the device, as the exporter names them
  std::array<Reading, kCounters> readings;

  const Reading& at(Counter c) const { return readings[static_cast<size_t>(c)]; }
  Reading& at(Counter c) { return readings[static_cast<size_t>(c)]; }
};

// A thread that is not HASE's, over the interval (strangers.h).
struct Stranger {
  std::string name;
  std::string group;       // threads of one group share one weight; "" = counts by itself
  std::vector<int> cores;  // it may run on; empty = all
  int core = -1;           // it last ran on
  double run = 0;          // part of the interval in which it ran …
  double wait = 0;         // … and in which it was ready but another ran
  double runnable() const { return run + wait; }
};

struct Snapshot {
  std::string source;
  double interval_s = 0;                // the time that rates and activities cover; 0 = unknown
  std::vector<DeviceReadings> devices;  // by device name
  std::vector<Stranger> strangers;      // cpu source only
  std::vector<std::string> notes;       // "page cut short after line 40" …
};

// Marks what cannot be right. Call once all readings of a device are in.
void Judge(DeviceReadings& device, double stale_after_s);

// Use of a device by part: fractions 0–1.
struct Load {
  double sm = 0, dram = 0, pcie = 0;
  double age_s = 0;
  bool valid = false;   // else the caller falls back to its own ledger
  bool coarse = false;  // from busy time, which only bounds activity from above
};
// What strangers use: the readings less what HASE itself placed there, never below zero. PCIe
// counts only where `pcie_mb_s`, the link's bandwidth, is known.
Load ForeignLoad(const DeviceReadings& device, const Load& own, double pcie_mb_s = 0);

// The same for cores: their busy time in the snapshot less `own_busy_s`, the processor time that
// HASE's own processes took on them in the interval, as a part of the cores' time. Time stolen by a
// hypervisor counts as strangers'. Not valid on a first poll, which covers no interval.
Load ForeignCpuLoad(const Snapshot& snapshot, const std::vector<int>& cores, double own_busy_s,
                    double own_dram = 0);

// A source of snapshots. Not thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<Snapshot> Poll() = 0;
};

}  // namespace hase::cluster::telemetry

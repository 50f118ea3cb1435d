#include "cluster/telemetry/snapshot.h"

#include <algorithm>
#include <cmath>

namespace hase::cluster::telemetry {
namespace {

constexpr std::string_view kNames[kCounters] = {"sm_active",
                                                "sm_occupancy",
                                                "tensor_active",
                                                "dram_active",
                                                "pcie_tx_mb_s",
                                                "pcie_rx_mb_s",
                                                "memory_used_mib",
                                                "memory_free_mib",
                                                "sm_clock_mhz",
                                                "memory_clock_mhz",
                                                "power_w",
                                                "throttle_reasons",
                                                "xid",
                                                "gpu_busy",
                                                "memory_busy",
                                                "probe_compute_ns",
                                                "probe_stream_ns",
                                                "probe_latency_ns"};
constexpr std::string_view kVerdicts[] = {"ok",           "stale",  "missing",
                                          "not_a_number", "zeroed", "contradictory"};
constexpr Counter kProfiling[] = {Counter::kSmActive, Counter::kSmOccupancy, Counter::kTensorActive,
                                  Counter::kDramActive};
constexpr Counter kFractions[] = {Counter::kSmActive,     Counter::kSmOccupancy,
                                  Counter::kTensorActive, Counter::kDramActive,
                                  Counter::kGpuBusy,      Counter::kMemoryBusy};
constexpr double kBusy = 0.1;        // of the time: a card with less may well show zeros
constexpr double kBusyWatts = 150;   // no card idles at this
constexpr double kTolerance = 0.02;  // counters are sampled apart

// A busy card whose profiling counters are all zero lost them (a fault, or a profiler elsewhere on
// the node that holds the machine-wide lock); a busy card always shows some SM activity.
bool Zeroed(const DeviceReadings& device) {
  const auto& sm = device.at(Counter::kSmActive);
  if (sm.validity == Validity::kMissing || sm.value != 0) return false;
  const auto& dram = device.at(Counter::kDramActive);
  if (dram.validity != Validity::kMissing && dram.value != 0) return false;
  const auto& busy = device.at(Counter::kGpuBusy);
  if (busy.ok()) return busy.value >= kBusy;
  const auto& power = device.at(Counter::kPower);
  return power.ok() && power.value >= kBusyWatts;
}

void Contradict(Reading& reading) {
  if (reading.ok()) reading.validity = Validity::kContradictory;
}

}  // namespace

std::string_view ToString(Counter counter) { return kNames[static_cast<size_t>(counter)]; }
std::string_view ToString(Validity validity) { return kVerdicts[static_cast<size_t>(validity)]; }

void Judge(DeviceReadings& device, double stale_after_s) {
  for (Reading& reading : device.readings) {
    if (reading.ok() && !std::isfinite(reading.value)) reading.validity = Validity::kNotANumber;
    if (reading.ok() && reading.value < 0) Contradict(reading);
  }
  for (const Counter c : kFractions) {
    if (device.at(c).value > 1 + kTolerance) Contradict(device.at(c));
  }
  // Tensor pipes cannot be active longer than the SMs that hold them.
  if (auto& tensor = device.at(Counter::kTensorActive);
      tensor.ok() && device.at(Counter::kSmActive).ok() &&
      tensor.value > device.at(Counter::kSmActive).value + kTolerance) {
    Contradict(tensor);
  }
  // SMs active half the time while no kernel ever ran.
  if (auto& busy = device.at(Counter::kGpuBusy); busy.ok() && busy.value == 0 &&
                                                 device.at(Counter::kSmActive).ok() &&
                                                 device.at(Counter::kSmActive).value >= 0.5) {
    Contradict(busy);
    Contradict(device.at(Counter::kSmActive));
  }
  if (Zeroed(device)) {
    for (const Counter c : kProfiling) {
      if (device.at(c).ok() && device.at(c).value == 0) device.at(c).validity = Validity::kZeroed;
    }
  }
  for (Reading& reading : device.readings) {
    if (reading.ok() && reading.age_s > stale_after_s) reading.validity = Validity::kStale;
  }
}

Load ForeignLoad(const DeviceReadings& device, const Load& own, double pcie_mb_s) {
  const auto rest = [](double all, double mine) { return std::clamp(all - mine, 0.0, 1.0); };
  const auto usable = [](const Reading& r) {
    return r.ok() || r.validity == Validity::kStale;  // an old counter still widens the interval
  };
  Load load;
  const Reading* sm = &device.at(Counter::kSmActive);
  const Reading* dram = &device.at(Counter::kDramActive);
  if (!usable(*sm) && usable(device.at(Counter::kGpuBusy))) {
    sm = &device.at(Counter::kGpuBusy);
    dram = &device.at(Counter::kMemoryBusy);
    load.coarse = true;
  }
  if (!usable(*sm)) return load;
  load.valid = true;
  load.sm = rest(sm->value, own.sm);
  load.age_s = sm->age_s;
  if (usable(*dram)) {
    load.dram = rest(dram->value, own.dram);
    load.age_s = std::max(load.age_s, dram->age_s);
  }
  const Reading &tx = device.at(Counter::kPcieTx), &rx = device.at(Counter::kPcieRx);
  if (pcie_mb_s > 0 && (usable(tx) || usable(rx))) {
    const double most = std::max(usable(tx) ? tx.value : 0, usable(rx) ? rx.value : 0);
    load.pcie = rest(most / pcie_mb_s, own.pcie);
  }
  return load;
}

Load ForeignCpuLoad(const Snapshot& snapshot, const std::vector<int>& cores, double own_busy_s,
                    double own_dram) {
  Load load;
  double busy = 0, dram = 0;
  int found = 0;
  for (const auto& device : snapshot.devices) {
    if (std::find(cores.begin(), cores.end(), device.index) == cores.end()) continue;
    if (!device.at(Counter::kSmActive).ok()) return load;
    busy += device.at(Counter::kSmActive).value;
    dram = std::max(dram, device.at(Counter::kDramActive).value);  // of the whole machine
    load.age_s = std::max(load.age_s, device.at(Counter::kSmActive).age_s);
    ++found;
  }
  if (found == 0 || snapshot.interval_s <= 0) return load;
  load.valid = true;
  load.sm = std::clamp(busy / found - own_busy_s / (found * snapshot.interval_s), 0.0, 1.0);
  load.dram = std::clamp(dram - own_dram, 0.0, 1.0);
  return load;
}

}  // namespace hase::cluster::telemetry

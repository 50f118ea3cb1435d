// nvml: what the driver says of this machine's cards. It has busy time, not activity (a card with
// one small kernel always running is 100 % busy), so loads made of it are coarse.
#include "cluster/nvml.h"
#include "cluster/telemetry/sources.h"

namespace hase::cluster::telemetry {
namespace {

template <typename T>
void Set(DeviceReadings& device, Counter counter, const std::optional<T>& value, double scale = 1) {
  if (!value) return;
  device.at(counter) = {static_cast<double>(*value) * scale, 0, Validity::kOk};
}

double Mib(Bytes bytes) { return static_cast<double>(bytes.value()) / 1048576.0; }

class NvmlSource : public Source {
 public:
  explicit NvmlSource(Nvml nvml) : nvml_(std::move(nvml)) {}

  Result<Snapshot> Poll() override {
    HASE_ASSIGN_OR_RETURN(const auto cards, nvml_.Cards());
    Snapshot snapshot;
    snapshot.source = "nvml";
    for (const auto& card : cards) {
      DeviceReadings device;
      device.device = card.uuid;
      device.index = card.index;
      device.model = card.name;
      Set(device, Counter::kGpuBusy, card.gpu_percent, 0.01);
      Set(device, Counter::kMemoryBusy, card.memory_percent, 0.01);
      Set(device, Counter::kSmClock, card.sm_clock_mhz);
      Set(device, Counter::kMemoryClock, card.memory_clock_mhz);
      Set(device, Counter::kPower, card.power_w);
      Set(device, Counter::kPcieTx, card.pcie_tx_mb_s);
      Set(device, Counter::kPcieRx, card.pcie_rx_mb_s);
      Set(device, Counter::kThrottleReasons, card.throttle_reasons);
      device.at(Counter::kMemoryUsed) = {Mib(card.memory_used), 0, Validity::kOk};
      device.at(Counter::kMemoryFree) = {Mib(card.memory - card.memory_used - card.memory_reserved),
                                         0, Validity::kOk};
      Judge(device, 1e9);
      snapshot.devices.push_back(std::move(device));
    }
    return snapshot;
  }

 private:
  Nvml nvml_;
};

}  // namespace

Result<std::unique_ptr<Source>> MakeNvml(const SourceOptions&) {
  HASE_ASSIGN_OR_RETURN(Nvml nvml, Nvml::Open());
  return std::make_unique<NvmlSource>(std::move(nvml));
}

}  // namespace hase::cluster::telemetry

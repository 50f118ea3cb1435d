// Field names: DCGM's field identifiers as dcgm-exporter writes them. "Blank" values are DCGM's own
// markers for "not available" (dcgm_structs.h: 2^47 and up for floats, 2^31 − 16 and up for 32-bit,
// 2^63 − 16 and up for 64-bit integers).
#include "cluster/telemetry/dcgm_exporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "base/hash.h"

namespace hase::cluster::telemetry {
namespace {

struct Field {
  std::string_view name;
  Counter counter;
  double scale;
};
constexpr Field kFields[] = {
    {"DCGM_FI_PROF_SM_ACTIVE", Counter::kSmActive, 1},
    {"DCGM_FI_PROF_SM_OCCUPANCY", Counter::kSmOccupancy, 1},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Counter::kTensorActive, 1},
    {"DCGM_FI_PROF_DRAM_ACTIVE", Counter::kDramActive, 1},
    {"DCGM_FI_PROF_PCIE_TX_BYTES", Counter::kPcieTx, 1e-6},
    {"DCGM_FI_PROF_PCIE_RX_BYTES", Counter::kPcieRx, 1e-6},
    {"DCGM_FI_DEV_FB_USED", Counter::kMemoryUsed, 1},
    {"DCGM_FI_DEV_FB_FREE", Counter::kMemoryFree, 1},
    {"DCGM_FI_DEV_SM_CLOCK", Counter::kSmClock, 1},
    {"DCGM_FI_DEV_MEM_CLOCK", Counter::kMemoryClock, 1},
    {"DCGM_FI_DEV_POWER_USAGE", Counter::kPower, 1},
    {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Counter::kThrottleReasons, 1},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", Counter::kThrottleReasons, 1},
    {"DCGM_FI_DEV_XID_ERRORS", Counter::kXid, 1},
    {"DCGM_FI_DEV_GPU_UTIL", Counter::kGpuBusy, 0.01},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", Counter::kMemoryBusy, 0.01},
};

bool Blank(double value) {
  if (!std::isfinite(value)) return false;
  return value >= 9.2e18 || (value >= 140737488355328.0 && value <= 140737488355340.0) ||
         (value >= 2147483632.0 && value <= 2147483647.0);
}

std::string DeviceKey(const PrometheusSample& sample) {
  const auto uuid = sample.Label("UUID");
  std::string key(uuid.empty() ? fmt::format("gpu{}", sample.Label("gpu")) : std::string(uuid));
  if (const auto instance = sample.Label("GPU_I_ID"); !instance.empty()) {
    key += fmt::format("/{}", instance);
  }
  return key;
}

void Describe(DeviceReadings& device, const PrometheusSample& sample) {
  const auto index = sample.Label("gpu");
  std::from_chars(index.data(), index.data() + index.size(), device.index);
  device.model = sample.Label("modelName");
  device.mig_profile = sample.Label("GPU_I_PROFILE");
  device.host = sample.Label("Hostname");
}

void AddTenant(DeviceReadings& device, const PrometheusSample& sample) {
  auto pod = sample.Label("pod");
  if (pod.empty()) pod = sample.Label("exported_pod");
  if (pod.empty()) return;
  auto space = sample.Label("namespace");
  if (space.empty()) space = sample.Label("exported_namespace");
  std::string tenant = space.empty() ? std::string(pod) : fmt::format("{}/{}", space, pod);
  if (std::find(device.tenants.begin(), device.tenants.end(), tenant) == device.tenants.end()) {
    device.tenants.push_back(std::move(tenant));
  }
}

class DcgmExporter : public Source {
 public:
  DcgmExporter(DcgmOptions options, FetchPage fetch, UnixTime now)
      : options_(std::move(options)), fetch_(std::move(fetch)), now_(std::move(now)) {}

  Result<Snapshot> Poll() override {
    HASE_ASSIGN_OR_RETURN(const std::string text, fetch_());
    HASE_ASSIGN_OR_RETURN(const PrometheusPage page, ParsePrometheus(options_.url, text));
    const double now = now_();
    const uint64_t hash = Fnv1a64(text);
    if (!last_poll_) {
      oldest_ = now - options_.interval_s;
    } else if (hash != hash_) {
      oldest_ = *last_poll_;
    }
    hash_ = hash;
    last_poll_ = now;
    Snapshot snapshot = ReadDcgmPage(page, now, now - oldest_, options_.stale_after_s);
    if (snapshot.devices.empty()) {
      return Unavailable(fmt::format(
          "{}: the page holds no DCGM counters (is this dcgm-exporter's address?)", options_.url));
    }
    return snapshot;
  }

 private:
  DcgmOptions options_;
  FetchPage fetch_;
  UnixTime now_;
  uint64_t hash_ = 0;
  std::optional<double> last_poll_;
  double oldest_ = 0;  // the readings are from after this
};

}  // namespace

Snapshot ReadDcgmPage(const PrometheusPage& page, double now_s, double age_s,
                      double stale_after_s) {
  Snapshot snapshot;
  snapshot.source = "dcgm_exporter";
  std::map<std::string, DeviceReadings> devices;
  for (const auto& sample : page.samples) {
    const auto field = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const Field& f) { return f.name == sample.metric; });
    if (field == std::end(kFields)) continue;
    const std::string key = DeviceKey(sample);
    auto [at, fresh] = devices.try_emplace(key);
    DeviceReadings& device = at->second;
    if (fresh) {
      device.device = key;
      Describe(device, sample);
    }
    AddTenant(device, sample);
    if (Blank(sample.value)) continue;
    Reading& reading = device.at(field->counter);
    const double value = sample.value * field->scale;
    const bool seen = reading.validity != Validity::kMissing;
    const bool same = reading.value == value || (std::isnan(reading.value) && std::isnan(value));
    if (seen && !same) {
      reading.validity = Validity::kContradictory;
      continue;
    }
    if (seen) continue;  // a tenant's copy of the card's value
    reading.value = value;
    reading.age_s = sample.timestamp_s ? std::max(0.0, now_s - *sample.timestamp_s) : age_s;
    reading.validity = Validity::kOk;
  }
  for (auto& [key, device] : devices) {
    Judge(device, stale_after_s);
    snapshot.devices.push_back(std::move(device));
  }
  if (page.cut_short) {
    snapshot.notes.push_back(fmt::format("the page is cut short in line {}", page.lines));
  }
  return snapshot;
}

std::unique_ptr<Source> MakeDcgmExporter(const DcgmOptions& options, FetchPage fetch,
                                         UnixTime now) {
  return std::make_unique<DcgmExporter>(options, std::move(fetch), std::move(now));
}

std::unique_ptr<Source> MakeDcgmExporter(const DcgmOptions& options) {
  return MakeDcgmExporter(
      options, [options] { return HttpGet(options.url, options.timeout_s); },
      [] {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        return std::chrono::duration<double>(now).count();
      });
}

}  // namespace hase::cluster::telemetry

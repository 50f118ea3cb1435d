// MIG instances have device handles of their own; their profile is read from the instance's name
// ("NVIDIA A100-SXM4-80GB MIG 3g.40gb"). Not read: per-process lists (they need the same user).
#include "cluster/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <cstdlib>

namespace hase::cluster {
namespace {

using Handle = struct nvmlDeviceStub*;
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned int gpu, memory;
};
constexpr int kSuccess = 0;
constexpr int kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
constexpr int kPcieTx = 0, kPcieRx = 1;        // nvmlPcieUtilCounter_t

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool initialised = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*max_clock)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*throttle)(Handle, unsigned long long*) = nullptr;
  int (*pcie_throughput)(Handle, int, unsigned*) = nullptr;
  int (*pcie_generation)(Handle, unsigned*) = nullptr;
  int (*pcie_width)(Handle, unsigned*) = nullptr;
  int (*capability)(Handle, int*, int*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(Handle, unsigned*) = nullptr;
  int (*mig_by_index)(Handle, unsigned, Handle*) = nullptr;

  ~Library() {
    if (initialised && shutdown) shutdown();
    if (handle) dlclose(handle);
  }

  template <typename F>
  bool Load(F& function, const char* symbol) {
    function = reinterpret_cast<F>(dlsym(handle, symbol));
    return function != nullptr;
  }

  // Without the first group there is nothing to say; the second is optional, by driver age.
  const char* LoadAll() {
    const auto need = [&](auto& f, const char* s) { return Load(f, s) ? nullptr : s; };
    for (const char* missing :
         {need(init, "nvmlInit_v2"), need(shutdown, "nvmlShutdown"),
          need(error_string, "nvmlErrorString"), need(count, "nvmlDeviceGetCount_v2"),
          need(by_index, "nvmlDeviceGetHandleByIndex_v2"), need(name, "nvmlDeviceGetName"),
          need(uuid, "nvmlDeviceGetUUID"), need(memory, "nvmlDeviceGetMemoryInfo")}) {
      if (missing) return missing;
    }
    Load(driver_version, "nvmlSystemGetDriverVersion");
    Load(utilization, "nvmlDeviceGetUtilizationRates");
    Load(clock, "nvmlDeviceGetClockInfo");
    Load(max_clock, "nvmlDeviceGetMaxClockInfo");
    Load(power, "nvmlDeviceGetPowerUsage");
    Load(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    Load(pcie_throughput, "nvmlDeviceGetPcieThroughput");
    Load(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
    Load(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth");
    Load(capability, "nvmlDeviceGetCudaComputeCapability");
    Load(mig_mode, "nvmlDeviceGetMigMode");
    Load(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
    Load(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex");
    return nullptr;
  }

  std::optional<int> Clock(int (*f)(Handle, int, unsigned*), Handle card, int which) const {
    unsigned value = 0;
    if (!f || f(card, which, &value) != kSuccess) return std::nullopt;
    return static_cast<int>(value);
  }
  std::optional<double> Pcie(Handle card, int which) const {
    unsigned kb_s = 0;
    if (!pcie_throughput || pcie_throughput(card, which, &kb_s) != kSuccess) return std::nullopt;
    return kb_s / 1000.0;
  }
  std::vector<NvmlMig> Migs(Handle card) const;
  Result<NvmlCard> Card(unsigned index) const;
};

std::vector<NvmlMig> Nvml::Library::Migs(Handle card) const {
  std::vector<NvmlMig> migs;
  unsigned slots = 0;
  if (!mig_count || !mig_by_index || mig_count(card, &slots) != kSuccess) return migs;
  for (unsigned i = 0; i < slots; ++i) {
    Handle instance = nullptr;
    if (mig_by_index(card, i, &instance) != kSuccess) continue;  // an empty slot
    std::array<char, 128> text{};
    Memory memory_info{};
    name(instance, text.data(), text.size());
    memory(instance, &memory_info);
    const std::string full = text.data();
    const size_t at = full.rfind("MIG ");
    migs.push_back({at == std::string::npos ? full : full.substr(at + 4),
                    Bytes(static_cast<int64_t>(memory_info.total)),
                    Bytes(static_cast<int64_t>(memory_info.used))});
  }
  return migs;
}

Result<NvmlCard> Nvml::Library::Card(unsigned index) const {
  Handle card = nullptr;
  std::array<char, 128> text{};
  Memory memory_info{};
  const auto fail = [&](int code) {
    return Unavailable(
        fmt::format("GPU {}: the driver answers '{}' (see dmesg for XID errors; a "
                    "card that fell off the bus needs a reboot)",
                    index, error_string(code)));
  };
  if (const int code = by_index(index, &card); code != kSuccess) return fail(code);
  NvmlCard result;
  result.index = static_cast<int>(index);
  if (const int code = name(card, text.data(), text.size()); code != kSuccess) return fail(code);
  result.name = text.data();
  if (const int code = uuid(card, text.data(), text.size()); code != kSuccess) return fail(code);
  result.uuid = text.data();
  if (const int code = memory(card, &memory_info); code != kSuccess) return fail(code);
  result.memory = Bytes(static_cast<int64_t>(memory_info.total));
  result.memory_used = Bytes(static_cast<int64_t>(memory_info.used));
  result.memory_reserved =
      Bytes(static_cast<int64_t>(memory_info.total - memory_info.free - memory_info.used));
  Utilization busy{};
  if (utilization && utilization(card, &busy) == kSuccess) {
    result.gpu_percent = static_cast<int>(busy.gpu);
    result.memory_percent = static_cast<int>(busy.memory);
  }
  result.sm_clock_mhz = Clock(clock, card, kSmClock);
  result.memory_clock_mhz = Clock(clock, card, kMemoryClock);
  result.max_sm_clock_mhz = Clock(max_clock, card, kSmClock);
  unsigned value = 0;
  if (power && power(card, &value) == kSuccess) result.power_w = value / 1000.0;
  unsigned long long reasons = 0;
  if (throttle && throttle(card, &reasons) == kSuccess) result.throttle_reasons = reasons;
  result.pcie_tx_mb_s = Pcie(card, kPcieTx);
  result.pcie_rx_mb_s = Pcie(card, kPcieRx);
  int major = 0, minor = 0;
  if (capability && capability(card, &major, &minor) == kSuccess) {
    result.compute_capability = 10 * major + minor;
  }
  if (pcie_generation && pcie_generation(card, &value) == kSuccess) {
    result.pcie_generation = static_cast<int>(value);
  }
  if (pcie_width && pcie_width(card, &value) == kSuccess) {
    result.pcie_width = static_cast<int>(value);
  }
  unsigned current = 0, pending = 0;
  result.mig_enabled = mig_mode && mig_mode(card, &current, &pending) == kSuccess && current == 1;
  if (result.mig_enabled) result.migs = Migs(card);
  return result;
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

Result<Nvml> Nvml::Open() {
  const char* named = std::getenv("HASE_NVML");
  const char* path = named && *named ? named : "libnvidia-ml.so.1";
  auto library = std::make_unique<Library>();
  library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) {
    return Unavailable(fmt::format(
        "no NVIDIA driver library ({}): install the NVIDIA driver to use GPUs", dlerror()));
  }
  if (const char* missing = library->LoadAll()) {
    return Unavailable(fmt::format("{} lacks {}: the NVIDIA driver is too old", path, missing));
  }
  if (const int code = library->init(); code != kSuccess) {
    return Unavailable(
        fmt::format("the NVIDIA driver does not start: {} (is its kernel module "
                    "loaded?)",
                    library->error_string(code)));
  }
  library->initialised = true;
  return Nvml(std::move(library));
}

std::string Nvml::DriverVersion() const {
  std::array<char, 96> text{};
  if (!library_->driver_version || library_->driver_version(text.data(), text.size()) != kSuccess) {
    return "unknown";
  }
  return text.data();
}

Result<std::vector<NvmlCard>> Nvml::Cards() const {
  unsigned count = 0;
  if (const int code = library_->count(&count); code != kSuccess) {
    return Unavailable(
        fmt::format("the NVIDIA driver does not list its GPUs: {}", library_->error_string(code)));
  }
  std::vector<NvmlCard> cards;
  for (unsigned i = 0; i < count; ++i) {
    HASE_ASSIGN_OR_RETURN(NvmlCard card, library_->Card(i));
    cards.push_back(std::move(card));
  }
  return cards;
}

}  // namespace hase::cluster

// NVIDIA's management library, loaded at run time. Declarations of our own, only of what is used;
// the ABI (nvml.h, versioned symbols) is stable across drivers.
//
// The library is libnvidia-ml.so.1, or what HASE_NVML names (tests put a stand-in there).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hase::cluster {

struct NvmlMig {
  std::string profile;  // "3g.40gb"
  Bytes memory, memory_used;
};

// One card as the driver describes it now. Absent = the driver does not say for this card.
struct NvmlCard {
  int index = 0;
  std::string name, uuid;
  int compute_capability = 0;  // 10 · major + minor
  Bytes memory, memory_used, memory_reserved;
  std::optional<int> gpu_percent, memory_percent;  // busy time of kernels, of the memory interface
  std::optional<int> sm_clock_mhz, memory_clock_mhz, max_sm_clock_mhz;
  std::optional<double> power_w, pcie_tx_mb_s, pcie_rx_mb_s;
  std::optional<uint64_t> throttle_reasons;
  int pcie_generation = 0, pcie_width = 0;  // 0 = unknown
  bool mig_enabled = false;
  std::vector<NvmlMig> migs;
};

class Nvml {
 public:
  // Loads and initialises. Unavailable: no library ("install the NVIDIA driver"), or it refuses.
  static Result<Nvml> Open();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  std::string DriverVersion() const;
  // A card that answers with an error (fallen off the bus, say) is an error naming its index.
  Result<std::vector<NvmlCard>> Cards() const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace hase::cluster

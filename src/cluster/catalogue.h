// The catalogue of devices (data/catalogue.csv): what data sheets say of each card, found by any of
// the names that NVML, DCGM, Kubernetes labels and data sets report for it.
//
// Matching ignores case, punctuation, vendor and family words (NVIDIA, Tesla, GeForce, …), and the
// "-SHARED" that Kubernetes' GPU feature discovery adds. A name that ends in a MIG profile
// ("A100-SXM4-80GB MIG 3g.40gb") gives the specification of that instance: its SMs, its memory and
// its part of bandwidth and L2. Bare family names mean the part with less memory ("A100" = 40 GB
// SXM4, "V100" = 16 GB SXM2), so that a guess never promises memory that is not there.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"

namespace hase::cluster {

class Catalogue {
 public:
  // Parses the text of catalogue.csv; errors name file, line and column.
  static Result<Catalogue> Parse(std::string file_name, std::string_view text);
  // The shipped one (base/paths.h).
  static Result<Catalogue> Load();

  // An error lists the nearest names.
  Result<DeviceSpec> Find(std::string_view name) const;
  const std::vector<DeviceSpec>& specs() const { return specs_; }

 private:
  std::vector<DeviceSpec> specs_;
  std::unordered_map<std::string, size_t> index_;  // normalised name -> spec
};

// "NVIDIA Tesla V100-SXM2-16GB" -> "v100sxm216gb".
std::string NormalisedDeviceName(std::string_view name);

// What the runtime can enforce on such a device: time slicing everywhere, MPS shares from compute
// capability 7.0, MIG where the card has it; a CPU has quotas.
std::vector<ShareMode> EnforceableModes(const DeviceSpec& spec);
// Compute slices MIG can cut the card into; 0 where it cannot.
int MigSlices(const DeviceSpec& spec);
// The part of `whole` that profile "3g.40gb" describes.
Result<DeviceSpec> MigInstance(const DeviceSpec& whole, std::string_view profile);

}  // namespace hase::cluster

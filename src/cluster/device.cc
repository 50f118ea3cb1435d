#include "cluster/device.h"

#include <fmt/core.h>

namespace hase::cluster {
namespace {
constexpr std::string_view kModes[] = {"exclusive", "time-slice", "mps", "mig", "cpu-quota"};
}

std::string_view ToString(ShareMode mode) { return kModes[static_cast<size_t>(mode)]; }

Result<ShareMode> ParseShareMode(std::string_view text) {
  for (size_t i = 0; i < std::size(kModes); ++i) {
    if (kModes[i] == text) return static_cast<ShareMode>(i);
  }
  return Invalid(fmt::format(
      "unknown sharing mode '{}' (known: exclusive, time-slice, mps, mig, cpu-quota)", text));
}

}  // namespace hase::cluster

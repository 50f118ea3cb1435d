// libFuzzer: any bytes as a services file. Whatever is accepted holds what the planner relies on.
// (A rate_file names a file of the disk: such texts are left out.)
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace hase::workload;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  if (text.find("rate_file") != std::string::npos) return 0;
  const auto services = ParseServices("fuzz.yaml", text);
  if (!services) return 0;
  if (services->empty()) std::abort();
  for (const Service& service : *services) {
    const bool sound = service.rate.size() == 1 && service.rate[0].rate_rps >= 0 &&
                       std::isfinite(service.rate[0].rate_rps) && service.slo_ms > 0 &&
                       service.slo_percentile > 0 && service.slo_percentile < 1 &&
                       service.max_batch >= 1;
    if (!sound) std::abort();
  }
  return 0;
}

// libFuzzer: any bytes as a cluster file. What is accepted must survive being written and read
// again with as many devices, types and nodes.
#include <cstdint>
#include <cstdlib>

#include "cluster/cluster_file.h"
#include "cluster/detect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace hase::cluster;
  static const auto catalogue = Catalogue::Load();
  if (!catalogue) std::abort();
  static const DeviceSpec cpu = CpuSpec(DetectCpu());
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto cluster = ParseCluster("fuzz.yaml", text, *catalogue, cpu);
  if (!cluster || cluster->devices.size() > 500) return 0;  // beyond: seconds an input, sanitized
  const auto again = ParseCluster("again.yaml", FormatCluster(*cluster), *catalogue, cpu);
  if (!again || again->devices.size() != cluster->devices.size() ||
      again->types.size() != cluster->types.size() ||
      again->nodes.size() != cluster->nodes.size()) {
    std::abort();
  }
  return 0;
}

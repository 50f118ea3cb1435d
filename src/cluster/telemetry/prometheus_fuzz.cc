// libFuzzer: any bytes as a page of dcgm-exporter, or as a line of recorded telemetry.
#include <cstdint>

#include "cluster/telemetry/prometheus.h"
#include "cluster/telemetry/sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  (void)hase::cluster::telemetry::ParsePrometheus("fuzz", text);
  (void)hase::cluster::telemetry::ParseSnapshot("fuzz:1", text);
  return 0;
}

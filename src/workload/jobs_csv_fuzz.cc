// libFuzzer: any bytes as a jobs file, in both its forms. What is accepted as CSV must survive
// being written and read again unchanged.
#include <cstdint>
#include <cstdlib>

#include "workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace hase::workload;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  (void)ParseJobsJson("fuzz.jsonl", text);
  const auto jobs = ParseJobsCsv("fuzz.csv", text);
  if (!jobs) return 0;
  const std::string written = WriteJobsCsv(*jobs);
  const auto again = ParseJobsCsv("again.csv", written);
  if (!again || again->size() != jobs->size() || WriteJobsCsv(*again) != written) std::abort();
  return 0;
}

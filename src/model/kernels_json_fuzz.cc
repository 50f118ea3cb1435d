// libFuzzer: any bytes as a *.kernels.json file. What is accepted must survive being written and
// read again unchanged, and must resolve or complain, at any batch.
#include <cstdlib>

#include "model/kernels_json.h"
#include "model/resolve.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace hase::model;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto graph = ReadKernelsJson(text, "fuzz.kernels.json");
  if (!graph) return 0;
  const auto again = ReadKernelsJson(WriteKernelsJson(*graph), "again.kernels.json");
  if (!again || !(*again == *graph)) std::abort();
  for (const int64_t batch : {int64_t{1}, int64_t{7}, int64_t{1} << 40}) {
    (void)Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, batch);
  }
  return 0;
}

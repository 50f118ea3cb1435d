#include "execution/worker/bench.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include "base/file.h"
#include "execution/worker/bench_graphs.h"
#include "execution/worker/measure.h"

namespace hase::execution {
namespace {

using cluster::MicroBenchmark;
using cluster::MicroKind;

constexpr int kChain = 129;  // nodes of the long launch chain; the short one has one

Result<double> TimeOf(const Partition& partition, const BenchOptions& options,
                      const MicroBenchmark& bench, int repeat) {
  const auto path =
      options.scratch / fmt::format("bench-{}-{}-{}.onnx", bench.name, repeat, getpid());
  HASE_RETURN_IF_ERROR(WriteFileAtomically(path, BenchGraph(bench, repeat)));
  LoadRequest load;
  load.model = path.string();
  load.provider = options.provider;
  MeasureOptions measure;
  measure.warm_up = 2;
  measure.min_time = options.time;
  measure.max_time = Nanos(20 * options.time.value());
  measure.max_runs = 20000;
  const auto measured = Measure(partition, std::move(load), measure);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!measured) return std::unexpected(measured.error());
  return ToSeconds(measured->typical);
}

Result<double> RateOf(const Partition& partition, const BenchOptions& options,
                      const MicroBenchmark& bench) {
  HASE_ASSIGN_OR_RETURN(const double seconds, TimeOf(partition, options, bench, 1));
  if (bench.kind == MicroKind::kLaunch) {
    HASE_ASSIGN_OR_RETURN(const double chain, TimeOf(partition, options, bench, kChain));
    return std::max(0.0, chain - seconds) / (kChain - 1) * 1e6;
  }
  const double work =
      bench.kind == MicroKind::kCopy ? 2 * static_cast<double>(bench.bytes) : bench.flops();
  return work / std::max(seconds, 1e-9) * 1e-9;
}

}  // namespace

std::string UtcNow() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Result<cluster::MicroBenchmarks> RunMicroBenchmarks(const Partition& partition,
                                                    const BenchOptions& options) {
  const bool cpu = options.provider == model::ort::Provider::kCpu;
  cluster::MicroBenchmarks result;
  for (const auto& bench :
       cluster::MicroBenchmarkList(cpu ? cluster::DeviceKind::kCpu : cluster::DeviceKind::kGpu)) {
    if (options.progress) options.progress(bench.name);
    HASE_ASSIGN_OR_RETURN(result.*bench.field, RateOf(partition, options, bench));
  }
  result.measured = true;
  result.date = UtcNow();
  result.sm_clock_mhz = options.clock_mhz;
  result.host_to_device_gb_s = result.copy_large;
  return result;
}

}  // namespace hase::execution

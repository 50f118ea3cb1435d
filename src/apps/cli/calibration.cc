#include "apps/cli/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/calibration_sweep.h"
#include "base/file.h"
#include "base/paths.h"
#include "cluster/telemetry/cpu.h"
#include "execution/worker/profile.h"
#include "latency/cpu_load.h"
#include "model/library.h"

namespace hase::cli {
namespace {

constexpr int kBranches = 40;  // of a random graph
const Nanos kTime = FromMillis(200);
constexpr int kRuns = 15;
// Strangers runnable for so much of the time on the device's cores spoil what is measured there.
constexpr double kTolerableStrangers = 0.1;

Status MeasureFile(const Machine& machine, const cluster::Device& device,
                   const std::filesystem::path& file, const std::filesystem::path& state,
                   int64_t batch, latency::SampleStore& store) {
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  model::ModelLibrary library(data);
  HASE_ASSIGN_OR_RETURN(const auto id,
                        library.Intern({.name = file.string(), .runtime = std::nullopt}));
  execution::ProfileRequest request;
  request.onnx = file;
  HASE_ASSIGN_OR_RETURN(request.kernels, library.Kernels(id, model::Runtime::kOrtCpu, batch));
  HASE_ASSIGN_OR_RETURN(const auto partition, PartitionOf(machine.cluster, device));
  request.device = machine.cluster.types[device.type.index()].name;
  request.scratch = state;
  request.measure.min_time = kTime;
  request.measure.min_runs = kRuns;
  HASE_ASSIGN_OR_RETURN(auto result, execution::ProfileModel(partition, request));
  // Reconciling shares the time of nodes that the kernel list lacks among the others, and that of
  // strangers who interrupt whole runs; a sweep has no use for whole-model times, so each kernel
  // keeps its own, less what the profiler adds.
  for (auto& sample : result.kernels) {
    sample.source = "calibrate";
    sample.latency_us *= (1 - result.unmatched) / std::max(1.0, result.factor);
  }
  return store.Append(result.kernels, CoreClockMhz(device.cpu_cores.front()));
}

// The first poll covers no interval, the second all that lies between.
void WarnOfStrangers(cluster::telemetry::Source& watch, const Machine& machine,
                     const cluster::Device& device) {
  const auto snapshot = watch.Poll();
  if (!snapshot) return;
  const auto load = latency::CpuForeignLoad(*snapshot, device.cpu_cores, {});
  if (!load.valid || load.sm <= kTolerableStrangers) return;
  fmt::print(stderr,
             "warning: {}: other programs wanted its cores {:.0f} % of the time while it was "
             "measured; kernels may read too slow. Run hase calibrate again on a quiet machine\n",
             machine.cluster.types[device.type.index()].name, 100 * load.sm);
}

}  // namespace

Status MeasureSweep(const Machine& machine, const cluster::Device& device, uint64_t seed,
                    const std::string& state_flag, latency::SampleStore& store) {
  HASE_ASSIGN_OR_RETURN(const auto state, StateDir(state_flag));
  const auto watch = cluster::telemetry::MakeCpu(cluster::telemetry::CpuOptions{});
  const bool watched = watch->Poll().has_value();
  for (int i = 0; i < (seed == 0 ? apps::kBasicGraphs : 1); ++i) {
    HASE_ASSIGN_OR_RETURN(const std::string bytes, seed == 0
                                                       ? apps::BasicCalibrationGraph(i)
                                                       : apps::CalibrationGraph(seed, kBranches));
    const auto file = state / fmt::format("sweep-{}-{}.onnx", seed, i);
    HASE_RETURN_IF_ERROR(WriteFileAtomically(file, bytes));
    // Mostly batch 1; every fourth random graph at 4.
    const int64_t batch = seed > 0 && seed % 4 == 0 ? 4 : 1;
    const auto status = MeasureFile(machine, device, file, state, batch, store);
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    HASE_RETURN_IF_ERROR(status);
  }
  if (watched) WarnOfStrangers(*watch, machine, device);
  return {};
}

Result<bool> EnsureCalibrated(const Machine& machine, const cluster::Device& device,
                              const std::string& state, latency::SampleStore& store) {
  const std::string& type = machine.cluster.types[device.type.index()].name;
  HASE_ASSIGN_OR_RETURN(const int64_t there, store.Count({.device = type, .source = "calibrate"}));
  if (there > 0) return false;
  HASE_RETURN_IF_ERROR(MeasureSweep(machine, device, 0, state, store));
  return true;
}

}  // namespace hase::cli

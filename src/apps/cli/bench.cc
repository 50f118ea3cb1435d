// hase bench: the micro-benchmarks of every CPU partition of the cluster, stored in samples.db.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/calibration.h"
#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "apps/cli/number_check.h"
#include "base/paths.h"
#include "execution/worker/bench.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string cluster, device, state;
  double time_ms = 150;
  bool force = false, calibrate = true, json = false;
};

struct Row {
  std::string device, limiter;
  bool fresh = false;  // measured now, not taken from the store
  cluster::MicroBenchmarks bench;
};

nlohmann::ordered_json ToJson(const Row& row) {
  const auto& b = row.bench;
  return {
      {"device", row.device},
      {"measured_now", row.fresh},
      {"limiter", row.limiter},
      {"date", b.date},
      {"clock_mhz", b.sm_clock_mhz},
      {"gemm_gflop_s",
       {{"small", b.gemm_small}, {"medium", b.gemm_medium}, {"large", b.gemm_large}}},
      {"conv3x3_gflop_s", b.conv3x3},
      {"conv1x1_gflop_s", b.conv1x1},
      {"depthwise_gflop_s", b.depthwise},
      {"copy_gb_s", {{"small", b.copy_small}, {"medium", b.copy_medium}, {"large", b.copy_large}}},
      {"launch_us", b.launch_us},
      {"host_to_device_gb_s", b.host_to_device_gb_s}};
}

void Print(const std::vector<Row>& rows) {
  fmt::print("{:<14} {:>21} {:>8} {:>8} {:>9} {:>20} {:>9}  {}\n", "device", "GEMM 128/512/1024",
             "3×3", "1×1", "depthwise", "copy 1/16/256 MiB", "launch", "limiter");
  fmt::print("{:<14} {:>21} {:>8} {:>8} {:>9} {:>20} {:>9}\n", "", "GFLOP/s", "GFLOP/s", "GFLOP/s",
             "GFLOP/s", "GB/s", "µs");
  for (const auto& row : rows) {
    const auto& b = row.bench;
    fmt::print("{:<14} {:>21} {:>8.1f} {:>8.1f} {:>9.1f} {:>20} {:>9.2f}  {}{}\n", row.device,
               fmt::format("{:.1f}/{:.1f}/{:.1f}", b.gemm_small, b.gemm_medium, b.gemm_large),
               b.conv3x3, b.conv1x1, b.depthwise,
               fmt::format("{:.1f}/{:.1f}/{:.1f}", b.copy_small, b.copy_medium, b.copy_large),
               b.launch_us, row.limiter, row.fresh ? "" : fmt::format(" (stored {})", b.date));
  }
}

Result<Row> BenchDevice(const cluster::Cluster& cluster, const cluster::Device& device,
                        const Flags& flags, latency::SampleStore& store, Progress& progress) {
  const auto& type = cluster.types[device.type.index()];
  Row row{.device = type.name, .limiter = {}, .fresh = false, .bench = {}};
  HASE_ASSIGN_OR_RETURN(const auto partition, PartitionOf(cluster, device));
  row.limiter = execution::ToString(partition.limiter());
  HASE_ASSIGN_OR_RETURN(const auto stored, store.Bench(type.name));
  if (stored && !flags.force) {
    row.bench = *stored;
    return row;
  }
  HASE_ASSIGN_OR_RETURN(const auto state, StateDir(flags.state));
  execution::BenchOptions options;
  options.scratch = state;
  options.time = FromMillis(flags.time_ms);
  options.clock_mhz = CoreClockMhz(device.cpu_cores.front());
  options.progress = [&](std::string_view name) {
    progress.Show(fmt::format("{} ({}): {}", device.name, type.name, name));
  };
  HASE_ASSIGN_OR_RETURN(row.bench, execution::RunMicroBenchmarks(partition, options));
  HASE_RETURN_IF_ERROR(store.PutBench(type.name, row.bench));
  row.fresh = true;
  return row;
}

Result<int> Run(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(auto store, OpenSamples(flags.state, machine));
  std::vector<Row> rows;
  std::vector<std::string> skipped;
  {
    Progress progress;
    std::vector<bool> seen(machine.cluster.types.size());
    std::optional<DeviceId> only;
    if (!flags.device.empty()) {
      HASE_ASSIGN_OR_RETURN(only, FindDevice(machine.cluster, flags.device));
    }
    for (const auto& device : machine.cluster.devices) {
      if ((only && device.id != *only) || seen[device.type.index()]) continue;
      seen[device.type.index()] = true;
      const auto& type = machine.cluster.types[device.type.index()];
      if (type.spec.kind == cluster::DeviceKind::kGpu && !only) {
        skipped.push_back(type.name);
        continue;
      }
      HASE_ASSIGN_OR_RETURN(Row row, BenchDevice(machine.cluster, device, flags, store, progress));
      rows.push_back(std::move(row));
      // A smaller quota's kernels are those of the whole cores, scaled.
      if (!flags.calibrate || type.quota < kWholeDevice) continue;
      progress.Show(fmt::format("{} ({}): calibration", device.name, type.name));
      HASE_RETURN_IF_ERROR(EnsureCalibrated(machine, device, flags.state, store));
    }
  }
  for (const auto& name : skipped) {
    fmt::print(stderr,
               "hase bench: {}: not measured (only this machine's CPU partitions are); its "
               "vector is estimated from the catalogue\n",
               name);
  }
  if (flags.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& row : rows) list.push_back(ToJson(row));
    fmt::print("{}\n",
               nlohmann::ordered_json{{"machine", machine.fingerprint}, {"devices", list}}.dump(2));
  } else {
    Print(rows);
  }
  return 0;
}

}  // namespace

Action SetUpBench(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--cluster", flags->cluster, "cluster.yaml (default: this machine)");
  command.add_option("--device", flags->device, "Only this device or type");
  command.add_option("--state", flags->state, "State folder");
  command.add_option("--time-ms", flags->time_ms, "Time for each benchmark")
      ->check(NumberIn(1, 60000));
  command.add_flag("!--no-calibrate", flags->calibrate,
                   "Leave out the sweep of kernels that a device never calibrated gets");
  command.add_flag("--force", flags->force, "Measure again what is stored");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

// hase devices: the devices of a cluster, what is known of them and how busy they are.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "apps/cli/number_check.h"
#include "cluster/telemetry/sources.h"

namespace hase::cli {
namespace {

namespace telemetry = cluster::telemetry;

struct Flags {
  std::string cluster, state;
  bool json = false, watch = false;
  std::string source;
  telemetry::SourceOptions source_options;
  double interval_s = 1;
  int polls = 0;  // 0 = until interrupted
};

std::string Join(const std::vector<cluster::ShareMode>& modes) {
  std::string text;
  for (const auto mode : modes)
    text += fmt::format("{}{}", text.empty() ? "" : ",", ToString(mode));
  return text;
}

nlohmann::ordered_json ToJson(const cluster::Cluster& cluster, const cluster::Device& device) {
  const auto& type = cluster.types[device.type.index()];
  const auto& spec = type.spec;
  auto modes = nlohmann::ordered_json::array();
  for (const auto mode : device.modes) modes.push_back(ToString(mode));
  nlohmann::ordered_json json = {{"name", device.name},
                                 {"node", cluster.nodes[device.node.index()].name},
                                 {"type", type.name},
                                 {"kind", spec.kind == cluster::DeviceKind::kCpu ? "cpu" : "gpu"},
                                 {"runtime", model::ToString(type.runtime)},
                                 {"modes", modes},
                                 {"memory_bytes", spec.memory.value()},
                                 {"bandwidth_gb_s", spec.bandwidth_gb_s},
                                 {"peak_fp32_tflops", spec.peak_tflops[0]},
                                 {"sm_count", spec.sm_count},
                                 {"price_per_hour", device.price_per_hour},
                                 {"verified", spec.verified},
                                 {"bench",
                                  {{"measured", type.bench.measured},
                                   {"date", type.bench.date},
                                   {"clock_mhz", type.bench.sm_clock_mhz},
                                   {"gemm_large_gflop_s", type.bench.gemm_large},
                                   {"copy_large_gb_s", type.bench.copy_large},
                                   {"launch_us", type.bench.launch_us}}}};
  if (spec.kind == cluster::DeviceKind::kCpu) {
    json["cores"] = device.cpu_cores;
    json["quota"] = ToFraction(type.quota);
  } else {
    json["compute_capability"] = spec.compute_capability / 10.0;
  }
  return json;
}

void Print(const Machine& machine) {
  const auto& cluster = machine.cluster;
  fmt::print("{:<14} {:<20} {:<9} {:>8} {:>9} {:>7} {:>7}\n", "device", "type", "runtime",
             "mem GiB", "fp32 TF/s", "GB/s", "$/hour");
  for (const auto& device : cluster.devices) {
    const auto& type = cluster.types[device.type.index()];
    fmt::print(
        "{:<14} {:<20} {:<9} {:>8.1f} {:>9.2f} {:>7.1f} {:>7}\n"
        "  {}; micro-benchmarks {}\n",
        device.name, type.name, model::ToString(type.runtime), Ratio(type.spec.memory, GiB(1)),
        type.spec.peak_tflops[0], type.spec.bandwidth_gb_s,
        device.price_per_hour > 0 ? fmt::format("{:.2f}", device.price_per_hour) : "-",
        Join(device.modes),
        type.bench.measured ? "measured " + type.bench.date : "estimated from specification");
  }
  if (!machine.no_gpu.empty()) fmt::print("\nno GPU: {}\n", machine.no_gpu);
}

void Print(const telemetry::Snapshot& snapshot) {
  using telemetry::Counter;
  const auto cell = [](const telemetry::Reading& reading, double scale) {
    return reading.ok() ? fmt::format("{:.1f}", reading.value * scale)
                        : std::string(telemetry::ToString(reading.validity));
  };
  fmt::print("{:<26} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7}\n", snapshot.source + " device", "SM %",
             "DRAM %", "busy %", "used MiB", "SM MHz", "power W");
  for (const auto& device : snapshot.devices) {
    fmt::print("{:<26} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7}\n", device.device,
               cell(device.at(Counter::kSmActive), 100), cell(device.at(Counter::kDramActive), 100),
               cell(device.at(Counter::kGpuBusy), 100), cell(device.at(Counter::kMemoryUsed), 1),
               cell(device.at(Counter::kSmClock), 1), cell(device.at(Counter::kPower), 1));
  }
  for (const auto& device : snapshot.devices) {
    if (!device.at(Counter::kProbeStream).ok()) continue;
    fmt::print(
        "{:<42} probe: {:.1f} ns a step, {:.1f} ns a KiB in order, {:.0f} ns a dependent read\n",
        device.device, device.at(Counter::kProbeCompute).value,
        device.at(Counter::kProbeStream).value, device.at(Counter::kProbeLatency).value);
  }
  for (const auto& s : snapshot.strangers) {
    fmt::print(
        "stranger {:<18} ran {:>5.1f} %, waited {:>5.1f} %, last on core {}, may run on {}{}\n",
        s.name, 100 * s.run, 100 * s.wait, s.core,
        s.cores.empty() ? "any" : fmt::format("{}", fmt::join(s.cores, ",")),
        s.group.empty() ? "" : ", in " + s.group);
  }
  for (const auto& note : snapshot.notes) fmt::print("note: {}\n", note);
}

// One snapshot per interval: a table, or a line of JSON that `replay` reads again.
Result<int> Watch(const Flags& flags, const Machine& machine) {
  std::string name = flags.source;
  if (name.empty()) name = machine.no_gpu.empty() && flags.cluster.empty() ? "nvml" : "cpu";
  HASE_ASSIGN_OR_RETURN(const auto source, telemetry::MakeSource(name, flags.source_options));
  if (name == "cpu") {  // the first poll only opens the interval
    HASE_RETURN_IF_ERROR(source->Poll());
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
  }
  for (int i = 0; flags.polls == 0 || i < flags.polls; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
    HASE_ASSIGN_OR_RETURN(const auto snapshot, source->Poll());
    if (flags.json) {
      fmt::print("{}\n", telemetry::ToJsonLine(snapshot));
    } else {
      Print(snapshot);
    }
    std::fflush(stdout);
  }
  return 0;
}

Result<int> Run(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(Machine machine, OpenMachine(flags.cluster));
  if (flags.watch) return Watch(flags, machine);
  HASE_RETURN_IF_ERROR(ReadMeasured(flags.state, machine));  // for the micro-benchmarks
  if (flags.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& device : machine.cluster.devices)
      list.push_back(ToJson(machine.cluster, device));
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"machine", machine.fingerprint}, {"no_gpu", machine.no_gpu}, {"devices", list}}
                   .dump(2));
    return 0;
  }
  Print(machine);
  return 0;
}

}  // namespace

Action SetUpDevices(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--cluster", flags->cluster, "cluster.yaml (default: this machine)");
  command.add_option("--state", flags->state, "State folder");
  command.add_flag("--json", flags->json, "Print JSON");
  command.add_flag("--watch", flags->watch, "Show live counters, again and again");
  std::string names;
  for (const auto& kind : telemetry::Sources()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  }
  command.add_option("--telemetry", flags->source, "Source of --watch: " + names);
  command.add_option("--url", flags->source_options.url, "Address of dcgm_exporter");
  command.add_option("--file", flags->source_options.file, "Snapshots to replay");
  command
      .add_option("--probe", flags->source_options.probe_cores,
                  "cpu: cores whose speed a small probe takes at every poll (3 ms of the core)")
      ->delimiter(',');
  command.add_option("--interval-s", flags->interval_s, "Time between polls")
      ->check(NumberIn(0.01, 3600));
  command.add_option("--polls", flags->polls, "End after so many (default: until interrupted)")
      ->check(CLI::NonNegativeNumber);
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

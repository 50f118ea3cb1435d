// hase calibrate: measures a sweep of kernel geometries on a CPU device into samples.db, so that
// models never profiled are predicted from kernels like theirs; says how well it does.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/calibration.h"
#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "latency/cpu_kernel_model.h"
#include "latency/evidence.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string device, cluster, state;
  int graphs = 0;
  bool json = false;
};

struct Figures {
  int kernels = 0, of_sweep = 0, scored = 0;
  double median_error = 0;  // of kernels of 20 us and more, their graph or model left out
};

// Every kernel of 20 us or more predicted without the graph or model it was measured in.
Figures LeaveOneOut(const std::vector<latency::Sample>& samples) {
  std::vector<const latency::Sample*> kernels;
  Figures figures;
  for (const auto& s : samples) {
    if (s.whole_model) continue;
    kernels.push_back(&s);
    figures.of_sweep += s.source == "calibrate";
  }
  const latency::CpuKernelModel model(kernels);
  const auto sets = latency::WorkingSetsOf(kernels);
  std::vector<double> errors;
  for (const auto* s : kernels) {
    if (s->latency_us < 20) continue;
    const std::vector<std::string> without = {s->model};
    errors.push_back(
        std::abs(model.Predict(s->kernel, sets.at({s->model, s->batch}), without).latency_us /
                     s->latency_us -
                 1));
  }
  figures.kernels = static_cast<int>(kernels.size());
  figures.scored = static_cast<int>(errors.size());
  if (!errors.empty()) figures.median_error = latency::MedianOf(errors);
  return figures;
}

Result<int> Run(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(auto store, OpenSamples(flags.state, machine));
  if (machine.cluster.devices.empty()) return Usage("this machine has no device");
  DeviceId id = machine.cluster.devices.front().id;
  if (!flags.device.empty()) {
    HASE_ASSIGN_OR_RETURN(id, FindDevice(machine.cluster, flags.device));
  }
  const cluster::Device& device = machine.cluster.devices[id.index()];
  const std::string type = machine.cluster.types[device.type.index()].name;
  HASE_ASSIGN_OR_RETURN(const auto before, store.Query({.device = type}));
  const Figures was = LeaveOneOut(before);
  HASE_RETURN_IF_ERROR(store.Remove({.device = type, .source = "calibrate"}));
  {
    Progress progress;
    for (int i = 0; i <= flags.graphs; ++i) {
      progress.Show(fmt::format("calibration graph {} of {} on {}", i + 1, flags.graphs + 1, type));
      HASE_RETURN_IF_ERROR(
          MeasureSweep(machine, device, static_cast<uint64_t>(i), flags.state, store));
    }
  }
  HASE_ASSIGN_OR_RETURN(const auto after, store.Query({.device = type}));
  const Figures now = LeaveOneOut(after);
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"device", type},
                                              {"kernels", now.kernels},
                                              {"kernels_of_sweep", now.of_sweep},
                                              {"scored", now.scored},
                                              {"median_ape_before", was.median_error},
                                              {"median_ape", now.median_error}}
                           .dump(2));
  } else {
    fmt::print("{}: {} kernels measured, {} of them by the sweep\n", type, now.kernels,
               now.of_sweep);
    fmt::print(
        "median error of {} kernels of 20 us or more, their graph or model left out: {:.1f} %",
        now.scored, 100 * now.median_error);
    fmt::print("{}\n", was.scored > 0 ? fmt::format(" (before: {:.1f} %)", 100 * was.median_error)
                                      : std::string());
  }
  return 0;
}

}  // namespace

Action SetUpCalibrate(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--device", flags->device, "CPU device (default: the first of this machine)");
  command
      .add_option("--graphs", flags->graphs,
                  "Random graphs of 40 branches each, on top of the basic sweep of 60 kernels")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command.add_option("--cluster", flags->cluster, "cluster.yaml (default: this machine)");
  command.add_option("--state", flags->state, "State folder");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

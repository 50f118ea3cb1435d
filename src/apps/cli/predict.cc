// hase predict: how long a model takes on a device, with its interval, its memory and its kernels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/dimension_flag.h"
#include "apps/cli/load_flag.h"
#include "apps/cli/machine.h"
#include "apps/cli/number_check.h"
#include "apps/live/live_load.h"
#include "apps/predicting.h"
#include "base/paths.h"
#include "cluster/micro_benchmarks.h"
#include "latency/runs_on.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string models, devices, batches = "1", runtime, precision = "fp32", load, mode, cluster,
                               state;
  std::vector<std::string> dimensions;
  double share = 1;
  bool explain = false, table = false, json = false;
};

struct Row {
  std::string model;
  cluster::DeviceType type;
  int64_t batch = 1;
  latency::Estimate estimate;
  double slowdown = 1;
  double Ms(double p) const { return estimate.QuantileOfOne(p) * slowdown * 1e3; }
};

Result<std::vector<int64_t>> ReadBatches(const std::string& text) {
  std::vector<int64_t> batches;
  for (const auto& part : SplitList(text)) {
    int64_t batch = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), batch);
    if (error != std::errc() || end != part.data() + part.size() || batch < 1) {
      return Usage(fmt::format("--batch: '{}' is not a whole number from 1", part));
    }
    batches.push_back(batch);
  }
  if (batches.empty()) return Usage("--batch names no batch");
  return batches;
}

// A type of this machine's (or the file's) cluster, else a card of the catalogue.
Result<cluster::DeviceType> TypeNamed(const Machine& machine, const std::string& name) {
  if (const auto id = FindDevice(machine.cluster, name)) {
    return machine.cluster.types[machine.cluster.devices[id->index()].type.index()];
  }
  auto spec = machine.catalogue.Find(name);
  if (!spec) {
    std::string here;
    for (const auto& type : machine.cluster.types) here += (here.empty() ? "" : ", ") + type.name;
    return Usage(fmt::format("{}; on this machine: {}", spec.error().message, here));
  }
  cluster::DeviceType type;
  type.name = spec->name;
  type.spec = std::move(*spec);
  type.bench = cluster::EstimateMicroBenchmarks(type.spec);
  type.runtime = model::Runtime::kOrtCuda;
  return type;
}

Result<std::vector<cluster::DeviceType>> ChooseTypes(const Machine& machine, const Flags& flags) {
  std::vector<cluster::DeviceType> types;
  for (const auto& name : SplitList(flags.devices)) {
    HASE_ASSIGN_OR_RETURN(auto type, TypeNamed(machine, name));
    types.push_back(std::move(type));
  }
  if (types.empty()) types = machine.cluster.types;
  if (types.empty()) return Usage("--device names no device, and this machine has none");
  if (flags.runtime.empty()) return types;
  const auto runtime = model::ParseRuntime(flags.runtime);
  if (!runtime) return Usage("--runtime: " + runtime.error().message);
  for (auto& type : types) {
    if (!latency::RunsOn(type, *runtime)) {
      return Usage(fmt::format("--runtime {} does not run on {}", flags.runtime, type.name));
    }
    type.runtime = *runtime;
  }
  return types;
}

Status CheckShare(const Flags& flags, const std::vector<cluster::DeviceType>& types) {
  if (flags.mode.empty()) return {};
  const auto mode = cluster::ParseShareMode(flags.mode);
  if (!mode) return Usage("--mode: " + mode.error().message);
  if (*mode == cluster::ShareMode::kExclusive && flags.share < 1) {
    return Usage(fmt::format("--mode exclusive gives the whole device, --share {:g} a part of it",
                             flags.share));
  }
  for (const auto& type : types) {
    const auto modes = cluster::EnforceableModes(type.spec);
    if (*mode != cluster::ShareMode::kExclusive && std::ranges::find(modes, *mode) == modes.end()) {
      return Usage(fmt::format("--mode: {} cannot enforce {}", type.name, flags.mode));
    }
  }
  return {};
}

nlohmann::ordered_json ToJson(const Row& row, bool explain, const std::vector<std::string>& notes) {
  const auto& e = row.estimate;
  nlohmann::ordered_json json = {
      {"model", row.model},
      {"device", row.type.name},
      {"batch", row.batch},
      {"runtime", model::ToString(row.type.runtime)},
      {"latency_ms", {{"p10", row.Ms(0.1)}, {"p50", row.Ms(0.5)}, {"p90", row.Ms(0.9)}}},
      {"load_ms", e.load_s * 1e3},
      {"memory_bytes", e.memory().value()},
      {"memory_load_bytes", e.memory_load.value()},
      {"memory_run_bytes", e.memory_run.value()},
      {"slowdown", row.slowdown},
      {"extrapolated", e.extrapolated},
      {"basis", e.basis}};
  if (!notes.empty()) json["note"] = fmt::format("{}", fmt::join(notes, "; "));
  auto kernels = nlohmann::ordered_json::array();
  for (const auto& k : e.kernels) {
    nlohmann::ordered_json kernel = {{"name", k.name},
                                     {"op_class", model::ToString(k.op_class)},
                                     {"latency_ms", k.latency_us * 1e-3}};
    if (explain) {
      kernel["roofline_ms"] = k.roofline_us * 1e-3;
      kernel["extrapolated"] = k.extrapolated;
      kernel["basis"] = k.basis;
    }
    kernels.push_back(std::move(kernel));
  }
  json["kernels"] = std::move(kernels);
  return json;
}

void PrintExplained(const Row& row) {
  const auto& e = row.estimate;
  fmt::print("{} at batch {} on {} ({})\n", row.model, row.batch, row.type.name,
             model::ToString(row.type.runtime));
  fmt::print("  latency   {:.3f} ms (p10 {:.3f}, p90 {:.3f}){}\n", row.Ms(0.5), row.Ms(0.1),
             row.Ms(0.9), e.extrapolated ? ", extrapolated" : "");
  fmt::print("  basis     {}\n", e.basis);
  fmt::print("  deviation {:.1f} % shared by all runs, {:.1f} % from run to run\n",
             100 * e.shared_sigma, 100 * e.independent_sigma);
  if (row.slowdown > 1) fmt::print("  slow-down × {:.3f} by share and load\n", row.slowdown);
  fmt::print("  bound by  compute {:.0f} %, memory bandwidth {:.0f} %, launch {:.0f} %\n",
             100 * e.compute_part, 100 * e.bandwidth_part, 100 * e.launch_part);
  fmt::print("  load      {:.0f} ms; memory {} MiB while loading, {} MiB in the run\n\n",
             e.load_s * 1e3, e.memory_load.value() >> 20, e.memory_run.value() >> 20);
  auto kernels = e.kernels;
  std::ranges::stable_sort(kernels, std::greater<>(), &latency::KernelEstimate::latency_us);
  fmt::print("  {:>10} {:>6} {:>11}  {:<15} {:<28} {}\n", "us", "share", "roofline us", "op class",
             "kernel", "basis");
  for (const auto& k : kernels) {
    fmt::print("  {:>10.1f} {:>5.1f}% {:>11.1f}  {:<15} {:<28} {}{}\n", k.latency_us,
               0.1 * k.latency_us / (e.latency_s * 1e3), k.roofline_us, model::ToString(k.op_class),
               k.name, k.basis, k.extrapolated ? " (extrapolated)" : "");
  }
}

void PrintTable(const std::vector<Row>& rows) {
  fmt::print("{:<14} {:<16} {:>5} {:>8} {:>8} {:>8} {:>6} {:>6}\n", "model", "device", "batch",
             "p10 ms", "p50 ms", "p90 ms", "load s", "MiB");
  bool extrapolated = false;
  for (const auto& row : rows) {
    fmt::print("{:<14} {:<16} {:>5} {:>8.3f} {:>8.3f} {:>8.3f} {:>6.2f} {:>6}{}\n", row.model,
               row.type.name, row.batch, row.Ms(0.1), row.Ms(0.5), row.Ms(0.9), row.estimate.load_s,
               row.estimate.memory().value() >> 20, row.estimate.extrapolated ? " *" : "");
    extrapolated = extrapolated || row.estimate.extrapolated;
  }
  if (extrapolated) fmt::print("* extrapolated: part of it from the nearest that was measured\n");
}

// estimates.csv (docs/formats.md).
void PrintCsv(const std::vector<Row>& rows, const std::string& precision) {
  fmt::print("model,device_type,batch,runtime,precision,p10_ms,p50_ms,p90_ms,memory_bytes\n");
  for (const auto& row : rows) {
    fmt::print("{},{},{},{},{},{:.6g},{:.6g},{:.6g},{}\n", row.model, row.type.name, row.batch,
               model::ToString(row.type.runtime), precision, row.Ms(0.1), row.Ms(0.5), row.Ms(0.9),
               row.estimate.memory().value());
  }
}

class Asking {
 public:
  Asking(const Flags& flags, const Machine& machine, model::ModelLibrary* library,
         model::Precision precision)
      : flags_(flags), machine_(machine), library_(*library), precision_(precision) {}

  Result<ModelId> Intern(const std::string& name) {
    return library_.Intern({.name = name, .runtime = std::nullopt, .precision = precision_});
  }

  Result<std::vector<Row>> Rows(const latency::Predictor& predictor,
                                const std::vector<cluster::DeviceType>& types,
                                const std::vector<int64_t>& batches) {
    HASE_ASSIGN_OR_RETURN(const LoadWish load, ParseLoad(flags_.load));
    HASE_ASSIGN_OR_RETURN(const auto foreign, Foreign(load, types));
    std::optional<cluster::ShareMode> mode;
    if (!flags_.mode.empty()) {
      HASE_ASSIGN_OR_RETURN(mode, cluster::ParseShareMode(flags_.mode));
    }
    std::vector<latency::Tenant> others;
    for (const auto& wish : load.residents) {
      HASE_ASSIGN_OR_RETURN(const ModelId id, Intern(wish.model));
      others.push_back({id, wish.batch, wish.share});
    }
    std::vector<Row> rows;
    for (const auto& name : SplitList(flags_.models)) {
      HASE_ASSIGN_OR_RETURN(const ModelId id, Intern(name));
      for (uint32_t t = 0; t < types.size(); ++t) {
        for (const int64_t batch : batches) {
          HASE_ASSIGN_OR_RETURN(auto estimate, predictor.Explain(id, DeviceTypeId(t), batch));
          const latency::Tenant tenant{id, batch, ShareFromFraction(flags_.share)};
          const double slow =
              mode ? predictor.SlowdownIn(*mode, tenant, DeviceTypeId(t), others, foreign[t])
                   : predictor.Slowdown(tenant, DeviceTypeId(t), others, foreign[t]);
          rows.push_back({name, types[t], batch, std::move(estimate), slow});
        }
      }
    }
    return rows;
  }

 private:
  // What strangers do on each type's cores: as given, or as the counters say now.
  Result<std::vector<latency::ForeignLoad>> Foreign(
      const LoadWish& load, const std::vector<cluster::DeviceType>& types) const {
    std::vector<latency::ForeignLoad> foreign(types.size(), load.foreign);
    if (!load.live) return foreign;
    HASE_ASSIGN_OR_RETURN(const auto state, StateDir(flags_.state));
    for (size_t t = 0; t < types.size(); ++t) {
      const auto device = FindDevice(machine_.cluster, types[t].name);
      if (!device || types[t].spec.kind != cluster::DeviceKind::kCpu) {
        return Usage(
            fmt::format("--load live: {} is no CPU partition of this machine; give sm= and "
                        "dram= instead",
                        types[t].name));
      }
      const auto& cores = machine_.cluster.devices[device->index()].cpu_cores;
      HASE_ASSIGN_OR_RETURN(const auto live, live::LiveLoad::Take(state, cores));
      foreign[t] = live.Of(cores);
      if (load.foreign.valid) {  // parts named as well override
        if (load.foreign.sm > 0) foreign[t].sm = load.foreign.sm;
        foreign[t].dram = load.foreign.dram;
      }
    }
    return foreign;
  }

  const Flags& flags_;
  const Machine& machine_;
  model::ModelLibrary& library_;
  model::Precision precision_;
};

Result<model::Dimensions> DimensionsFor(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(auto dimensions, ParseDimensions(flags.dimensions));
  const auto names = SplitList(flags.models);
  if (!dimensions.empty() &&
      std::ranges::none_of(names, [](const auto& name) { return name.ends_with(".onnx"); })) {
    return Usage("--dim fixes dimensions of ONNX files only");
  }
  return dimensions;
}

// What is to be said besides the numbers.
std::vector<std::string> NotesOn(const std::vector<Row>& rows, const apps::Predicting& predicting) {
  std::vector<std::string> notes = predicting.notes();
  for (const auto& row : rows) {
    const Bytes needs = row.estimate.memory(), has = row.type.spec.memory;
    if (has.value() <= 0 || needs <= has) continue;
    notes.push_back(fmt::format("{} at batch {} does not fit: it needs {:.1f} GiB, {} has {:.1f}",
                                row.model, row.batch, Ratio(needs, GiB(1)), row.type.name,
                                Ratio(has, GiB(1))));
  }
  return notes;
}

Result<int> Run(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto batches, ReadBatches(flags.batches));
  const auto precision = model::ParsePrecision(flags.precision);
  if (!precision) return Usage("--precision: " + precision.error().message);
  HASE_ASSIGN_OR_RETURN(Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(auto samples, ReadMeasured(flags.state, machine));
  HASE_ASSIGN_OR_RETURN(const auto types, ChooseTypes(machine, flags));
  HASE_RETURN_IF_ERROR(CheckShare(flags, types));
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  HASE_ASSIGN_OR_RETURN(auto dimensions, DimensionsFor(flags));
  model::ModelLibrary library(data, std::move(dimensions));
  HASE_ASSIGN_OR_RETURN(const auto predicting,
                        apps::Predicting::Make(&library, types, std::move(samples)));
  Asking asking(flags, machine, &library, *precision);
  HASE_ASSIGN_OR_RETURN(const auto rows, asking.Rows(predicting->predictor(), types, batches));
  if (rows.empty()) return Usage("no model was named");
  const auto notes = NotesOn(rows, *predicting);
  for (const auto& note : notes) fmt::print(stderr, "hase predict: {}\n", note);
  const bool one = rows.size() == 1 && !flags.table;
  if (flags.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& row : rows) list.push_back(ToJson(row, flags.explain, notes));
    fmt::print("{}\n", (one ? list[0] : list).dump(2));
  } else if (flags.table) {
    PrintCsv(rows, flags.precision);
  } else if (flags.explain) {
    for (const auto& row : rows) PrintExplained(row);
  } else {
    PrintTable(rows);
  }
  return 0;
}

}  // namespace

Action SetUpPredict(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("model", flags->models, "Zoo names, .onnx or .kernels.json files, by comma")
      ->required();
  command.add_option("--device", flags->devices,
                     "Devices by comma: this machine's, or cards of the catalogue (default: all of "
                     "this machine's)");
  command.add_option("--batch", flags->batches, "Batch sizes, by comma")->capture_default_str();
  command.add_option("--runtime", flags->runtime, "ort-cpu | ort-cuda | tensorrt | pytorch");
  command.add_option("--precision", flags->precision, "fp32 | tf32 | fp16 | bf16 | int8")
      ->capture_default_str();
  command.add_option("--dim", flags->dimensions,
                     "Fix a symbolic dimension of ONNX files: NAME=SIZE");
  command.add_option("--load", flags->load,
                     "What else runs there: sm=,dram=,pcie=,residents=MODEL:BATCH:SHARE+…, or "
                     "live = what this machine's counters say now");
  command.add_option("--share", flags->share, "Part of the device the model gets")
      ->check(NumberIn(0.001, 1))
      ->capture_default_str();
  command.add_option("--mode", flags->mode,
                     "How the device is shared: exclusive | time-slice | mps | mig | cpu-quota "
                     "(default: as the device does it)");
  command.add_option("--cluster", flags->cluster, "cluster.yaml (default: this machine)");
  command.add_option("--state", flags->state, "State folder");
  command.add_flag("--explain", flags->explain, "Which terms and kernels the time consists of");
  command.add_flag("--table", flags->table, "Print estimates.csv");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

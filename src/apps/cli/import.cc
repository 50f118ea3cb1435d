// hase import: measurements of other tools into samples.db.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "base/file.h"
#include "base/paths.h"
#include "latency/imports/imports.h"
#include "latency/runs_on.h"
#include "model/library.h"

namespace hase::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  std::string format, model, device, runtime, precision = "fp32", state;
  int64_t batch = 1;
  bool dry = false, json = false;
};

// A card of the catalogue or a device here, by the name under which a prediction finds the samples.
Result<cluster::DeviceType> TypeNamed(const Machine& machine, const std::string& name) {
  if (const auto id = FindDevice(machine.cluster, name)) {
    return machine.cluster.types[machine.cluster.devices[id->index()].type.index()];
  }
  cluster::DeviceType type;
  HASE_ASSIGN_OR_RETURN(type.spec, machine.catalogue.Find(name));
  type.name = type.spec.name;
  return type;
}

model::Runtime UsualRuntime(std::string_view importer) {
  return importer == "torch_profiler" ? model::Runtime::kPyTorch : model::Runtime::kTensorRt;
}

Result<int> Run(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const Machine machine, OpenMachine(""));
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  latency::ImportLabel label;
  label.batch = flags.batch;
  const auto device = TypeNamed(machine, flags.device);
  if (!device) return Usage("--device: " + device.error().message);
  label.device = device->name;
  const auto precision = model::ParsePrecision(flags.precision);
  if (!precision) return Usage("--precision: " + precision.error().message);
  label.precision = *precision;
  model::ModelLibrary library(data);
  HASE_ASSIGN_OR_RETURN(
      const ModelId id,
      library.Intern({.name = flags.model, .runtime = {}, .precision = label.precision}));
  label.model = library.graph(id).model;
  latency::Imported all;
  for (const auto& file : flags.files) {
    HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(file));
    HASE_ASSIGN_OR_RETURN(const auto* importer, latency::FindImporter(flags.format, file, text));
    label.runtime = UsualRuntime(importer->name);
    if (!flags.runtime.empty()) {
      const auto runtime = model::ParseRuntime(flags.runtime);
      if (!runtime) return Usage("--runtime: " + runtime.error().message);
      label.runtime = *runtime;
    }
    if (!latency::RunsOn(*device, label.runtime)) {
      return Usage(fmt::format("--runtime {} does not run on {}", model::ToString(label.runtime),
                               device->name));
    }
    HASE_ASSIGN_OR_RETURN(label.kernels, library.Kernels(id, label.runtime, label.batch));
    HASE_ASSIGN_OR_RETURN(auto imported, importer->read(file, text, label));
    std::ranges::move(imported.samples, std::back_inserter(all.samples));
    std::ranges::move(imported.notes, std::back_inserter(all.notes));
  }
  if (!flags.dry) {
    HASE_ASSIGN_OR_RETURN(auto store, OpenSamples(flags.state, machine));
    HASE_RETURN_IF_ERROR(store.Append(all.samples));
  }
  for (const auto& note : all.notes) fmt::print(stderr, "hase import: {}\n", note);
  int64_t whole = 0;
  for (const auto& s : all.samples) whole += s.whole_model;
  const auto kernels = static_cast<int64_t>(all.samples.size()) - whole;
  if (flags.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& s : all.samples) {
      list.push_back({{"model", s.model},
                      {"whole_model", s.whole_model},
                      {"kernel", s.whole_model ? "" : s.kernel.op},
                      {"batch", s.batch},
                      {"device", s.device},
                      {"runtime", model::ToString(s.runtime)},
                      {"source", s.source},
                      {"latency_us", s.latency_us},
                      {"spread", s.spread},
                      {"repeats", s.repeats}});
    }
    fmt::print("{}\n", nlohmann::ordered_json{{"samples", list}, {"notes", all.notes}}.dump(2));
  } else {
    fmt::print("{} whole-model and {} kernel samples of {} on {}{}\n", whole, kernels, label.model,
               label.device, flags.dry ? " (not stored)" : "");
  }
  return 0;
}

}  // namespace

Action SetUpImport(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  std::string names;
  for (const auto& importer : latency::Importers()) {
    names += fmt::format("{}{}", names.empty() ? "" : " | ", importer.name);
  }
  command.add_option("files", flags->files, "Files that a tool wrote")->required();
  command.add_option("--format", flags->format, names + " (default: by content)");
  command.add_option("--model", flags->model, "Zoo name, .onnx or .kernels.json file")->required();
  command.add_option("--device", flags->device, "Card of the catalogue, or a device here")
      ->required();
  command.add_option("--batch", flags->batch, "Batch that was run")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--runtime", flags->runtime,
                     "tensorrt | pytorch | ort-cuda (default: the tool's)");
  command.add_option("--precision", flags->precision, "fp32 | tf32 | fp16 | bf16 | int8")
      ->capture_default_str();
  command.add_option("--state", flags->state, "State folder");
  command.add_flag("--dry-run", flags->dry, "Read and tell, store nothing");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

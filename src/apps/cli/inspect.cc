// hase inspect: what a model makes a device compute, kernel by kernel, as its runtime will run it.
#include <fmt/format.h>

#include <map>

#include "apps/cli/commands.h"
#include "apps/cli/dimension_flag.h"
#include "base/file.h"
#include "base/paths.h"
#include "model/kernels_json.h"
#include "model/library.h"
#include "model/resolve.h"

#include <nlohmann/json.hpp>

namespace hase::cli {
namespace {

using model::Kernel;
using model::ModelKernels;

struct Flags {
  std::string model;
  int64_t batch = 1;
  std::string runtime = "ort-cpu";
  std::string precision = "fp32";
  std::vector<std::string> dimensions;
  std::string output;
  bool json = false;
};

int64_t PeakMemory(const model::MemoryTerms& memory) {
  return (memory.weights + memory.peak_activations + memory.largest_workspace + memory.input +
          memory.output)
      .value();
}

nlohmann::ordered_json ToJson(const Kernel& kernel) {
  nlohmann::ordered_json json = {{"name", kernel.name},
                                 {"op", kernel.op},
                                 {"op_class", ToString(kernel.op_class)},
                                 {"precision", ToString(kernel.precision)},
                                 {"flops", kernel.flops},
                                 {"bytes", kernel.bytes()},
                                 {"bytes_activations", kernel.bytes_activations},
                                 {"bytes_weights", kernel.bytes_weights},
                                 {"bytes_written", kernel.bytes_written},
                                 {"m", kernel.m},
                                 {"n", kernel.n},
                                 {"k", kernel.k},
                                 {"gemm_batch", kernel.gemm_batch},
                                 {"inputs", kernel.inputs},
                                 {"output", kernel.output}};
  if (kernel.fused_add) json["fused_add"] = true;
  if (!kernel.activation.empty()) json["activation"] = kernel.activation;
  return json;
}

void PrintJson(const ModelKernels& model) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  int64_t other = 0;
  for (const Kernel& kernel : model.kernels) {
    kernels.push_back(ToJson(kernel));
    other += kernel.op_class == model::OpClass::kOther ? 1 : 0;
  }
  const auto& memory = model.memory;
  const nlohmann::ordered_json json = {{"model", model.model},
                                       {"runtime", ToString(model.runtime)},
                                       {"precision", ToString(model.precision)},
                                       {"batch", model.batch},
                                       {"params", model.params},
                                       {"macs", model.macs},
                                       {"total_flops", model.total_flops()},
                                       {"peak_memory_bytes", PeakMemory(memory)},
                                       {"memory_bytes",
                                        {{"weights", memory.weights.value()},
                                         {"peak_activations", memory.peak_activations.value()},
                                         {"arena", memory.arena.value()},
                                         {"largest_workspace", memory.largest_workspace.value()},
                                         {"input", memory.input.value()},
                                         {"output", memory.output.value()}}},
                                       {"unknown_operators", other},
                                       {"kernels", std::move(kernels)}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// 1234567 → "1.23M"
std::string Short(double value) {
  for (const char* unit : {"", "k", "M", "G", "T", "P"}) {
    if (value < 999.5)
      return fmt::format("{:.{}f}{}", value,
                         value < 9.995 && *unit   ? 2
                         : value < 99.95 && *unit ? 1
                                                  : 0,
                         unit);
    value /= 1000;
  }
  return fmt::format("{:.3g}E", value);
}

// Cut in the middle: both ends of a node's name tell something.
std::string Fit(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t head = (width - 2) / 2;
  return text.substr(0, head) + ".." + text.substr(text.size() - (width - 2 - head));
}

void PrintTable(const ModelKernels& model) {
  fmt::print("{} on {}, {}, batch {}\n\n", model.model, ToString(model.runtime),
             ToString(model.precision), model.batch);
  fmt::print("{:<24} {:<18} {:<14} {:>6} {:>6} {:>5}\n", "kernel", "operators", "class", "FLOP",
             "bytes", "F/B");
  std::map<std::string_view, int> other;
  for (const Kernel& kernel : model.kernels) {
    fmt::print("{:<24} {:<18} {:<14} {:>6} {:>6} {:>5.1f}\n", Fit(kernel.name, 24),
               Fit(kernel.op, 18), ToString(kernel.op_class),
               Short(static_cast<double>(kernel.flops)), Short(static_cast<double>(kernel.bytes())),
               kernel.intensity());
    if (kernel.op_class == model::OpClass::kOther) ++other[kernel.op];
  }
  const auto& memory = model.memory;
  const auto mib = [](Bytes b) { return static_cast<double>(b.value()) / (1 << 20); };
  fmt::print("\n{} kernels, {} FLOP, {} multiply-adds, {} parameters\n", model.kernels.size(),
             Short(static_cast<double>(model.total_flops())),
             Short(static_cast<double>(model.macs)), Short(static_cast<double>(model.params)));
  fmt::print(
      "memory: weights {:.1f} MiB, activations {:.1f} MiB at their peak, workspace {:.1f} MiB,\n"
      "        input {:.1f} MiB, output {:.2f} MiB\n",
      mib(memory.weights), mib(memory.peak_activations), mib(memory.largest_workspace),
      mib(memory.input), mib(memory.output));
  for (const auto& [op, count] : other) {
    fmt::print("unknown operator {} ({} kernels): costed by its bytes alone\n", op, count);
  }
}

Result<int> Inspect(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  auto runtime = model::ParseRuntime(flags.runtime);
  if (!runtime) return Usage(fmt::format("--runtime: {}", runtime.error().message));
  auto precision = model::ParsePrecision(flags.precision);
  if (!precision) return Usage(fmt::format("--precision: {}", precision.error().message));
  if (!flags.output.empty() && !flags.output.ends_with(".json")) {
    return Usage(fmt::format(
        "-o {}: the kernel list is JSON: give a name that ends in .kernels.json", flags.output));
  }
  if (flags.batch < 1) return Usage(fmt::format("--batch {}: must be at least 1", flags.batch));
  HASE_ASSIGN_OR_RETURN(const auto dimensions, ParseDimensions(flags.dimensions));
  HASE_ASSIGN_OR_RETURN(const auto basic, model::OpenModel(flags.model, data, dimensions));
  HASE_ASSIGN_OR_RETURN(const auto rules,
                        model::LoadFusionRules(data / "fusion" / (flags.runtime + ".yaml")));
  HASE_ASSIGN_OR_RETURN(const auto kernels, model::Resolve(model::Fuse(basic, rules), *runtime,
                                                           *precision, flags.batch));
  if (!flags.output.empty()) {
    HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.output, model::WriteKernelsJson(basic)));
  }
  if (flags.json) {
    PrintJson(kernels);
  } else {
    PrintTable(kernels);
  }
  return 0;
}

}  // namespace

Action SetUpInspect(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("model", flags->model, "Zoo name, .onnx or .kernels.json file")->required();
  command.add_option("--batch", flags->batch, "Inputs per run (default 1)");
  command.add_option("--runtime", flags->runtime, "ort-cpu (default), ort-cuda, tensorrt, pytorch");
  command.add_option(
      "--precision", flags->precision,
      "What float32 tensors are computed in: fp32 (default), tf32, fp16, bf16, int8");
  command.add_option("--dim", flags->dimensions, "Fix a symbolic dimension: NAME=SIZE");
  command.add_option("-o,--output", flags->output,
                     "Also write the model's kernel list (all runtimes, any batch) to FILE, whose "
                     "name ends in .kernels.json");
  command.add_flag("--json", flags->json, "Print JSON (docs/formats.md)");
  return [flags]() { return Inspect(*flags); };
}

}  // namespace hase::cli

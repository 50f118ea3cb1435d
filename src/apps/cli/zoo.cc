// hase zoo: the models that HASE builds itself. `list` says what there is, `export` writes ONNX.
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "base/file.h"
#include "base/paths.h"
#include "model/library.h"
#include "model/resolve.h"
#include "model/zoo/zoo.h"

#include <nlohmann/json.hpp>

namespace hase::cli {
namespace {

using model::zoo::ZooModel;

struct Flags {
  bool json = false;
  std::string name;
  std::string output;
  int64_t batch = 0;
};

struct Row {
  const ZooModel* zoo;
  int64_t params, macs, input_bytes;
};

Result<std::vector<Row>> ReadZoo() {
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  std::vector<Row> rows;
  for (const ZooModel& zoo : model::zoo::ZooModels()) {
    HASE_ASSIGN_OR_RETURN(const auto graph, model::OpenModel(std::string(zoo.name), data));
    HASE_ASSIGN_OR_RETURN(const auto kernels, model::Resolve(graph, model::Runtime::kOrtCpu,
                                                             model::Precision::kFp32, 1));
    rows.push_back({&zoo, kernels.params, kernels.macs, kernels.memory.input.value()});
  }
  return rows;
}

Result<int> List(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto rows, ReadZoo());
  if (flags.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : rows) {
      list.push_back({{"name", row.zoo->name},
                      {"family", row.zoo->family},
                      {"params", row.params},
                      {"macs", row.macs}});
    }
    fmt::print("{}\n", list.dump(2));
    return 0;
  }
  fmt::print("{:<20} {:<10} {:>12} {:>10}\n", "name", "family", "params", "GMACs");
  for (const Row& row : rows) {
    fmt::print("{:<20} {:<10} {:>12} {:>10.3f}\n", row.zoo->name, row.zoo->family, row.params,
               static_cast<double>(row.macs) * 1e-9);
  }
  return 0;
}

Result<int> Export(const Flags& flags) {
  const ZooModel* zoo = model::zoo::FindZooModel(flags.name);
  if (zoo == nullptr) {
    return Usage(fmt::format("'{}' is not in the zoo; see hase zoo list", flags.name));
  }
  if (flags.batch < 0) return Usage(fmt::format("--batch {}: must be at least 1", flags.batch));
  HASE_ASSIGN_OR_RETURN(const std::string bytes, model::zoo::BuildOnnx(*zoo, flags.batch));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.output, bytes));
  return 0;
}

}  // namespace

Action SetUpZoo(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.require_subcommand(1);
  CLI::App* list = command.add_subcommand("list", "The models, their parameters and multiply-adds");
  list->add_flag("--json", flags->json, "Print JSON: [{name, family, params, macs}]");
  CLI::App* write = command.add_subcommand("export", "Write a model as an ONNX file");
  write->add_option("name", flags->name, "Model, as `hase zoo list` names it")->required();
  write->add_option("-o,--output", flags->output, "File to write")->required();
  write->add_option("--batch", flags->batch, "Fix the batch (default: symbolic, named N)")
      ->check(CLI::PositiveNumber);
  return [flags, list]() { return list->parsed() ? List(*flags) : Export(*flags); };
}

}  // namespace hase::cli

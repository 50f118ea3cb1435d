#include "apps/cli/evaluate_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/machine.h"
#include "apps/cli/model_file.h"
#include "apps/live/load_table.h"
#include "apps/predicting.h"
#include "base/file.h"
#include "base/paths.h"

namespace hase::cli {
namespace {

using latency::LoadRow;
using nlohmann::ordered_json;

// The law's constants were fitted on these; the others have never been seen.
constexpr std::string_view kFitted[] = {"resnet18", "vgg11"};
constexpr std::string_view kDefaultModels =
    "resnet18,vgg11,resnet50,densenet121,mobilenet_v2,mobilenet_v3_large,yolov3_tiny,yolov5n";

Result<std::filesystem::path> StrangerProgram(const std::string& given) {
  std::error_code error;
  std::filesystem::path path = given;
  if (given.empty()) {
    path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "hase_stranger";
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return Unavailable(fmt::format(
        "{}: no such program; build the target hase_stranger or give --stranger", path.string()));
  }
  return path;
}

Result<std::vector<LoadRow>> MeasureDevice(const Machine& machine, const cluster::Device& device,
                                           const EvaluateLoadFlags& flags,
                                           const std::filesystem::path& stranger,
                                           const latency::SampleStore& store) {
  const auto& type = machine.cluster.types[device.type.index()];
  if (type.spec.kind != cluster::DeviceKind::kCpu) {
    return Usage(fmt::format("--load: {} is no CPU partition", type.name));
  }
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  HASE_ASSIGN_OR_RETURN(const auto state, StateDir(flags.state));
  model::ModelLibrary library(data);
  HASE_ASSIGN_OR_RETURN(auto samples, store.Query({}));
  HASE_ASSIGN_OR_RETURN(const auto predicting,
                        apps::Predicting::Make(&library, {type}, std::move(samples)));
  std::vector<live::LoadModel> models;
  for (const auto& name :
       SplitList(flags.models.empty() ? std::string(kDefaultModels) : flags.models)) {
    live::LoadModel model;
    model.name = name;
    model.fitted = std::ranges::find(kFitted, name) != std::end(kFitted);
    HASE_ASSIGN_OR_RETURN(model.onnx, ModelFile(name, state));
    HASE_ASSIGN_OR_RETURN(const ModelId id, library.Intern({.name = name, .runtime = {}}));
    HASE_ASSIGN_OR_RETURN(const auto estimate,
                          predicting->predictor().Explain(id, DeviceTypeId(0), 1));
    model.demand = latency::DemandOf(estimate, kWholeDevice);
    models.push_back(std::move(model));
  }
  Progress progress;
  live::LoadTableOptions options;
  options.stranger = stranger;
  options.device = type.name;
  options.cores = device.cpu_cores;
  options.quota = ToFraction(type.quota);
  options.progress = [&](const std::string& line) { progress.Show(line); };
  return live::MeasureLoadTable(models, live::LoadCases(execution::OnlineCores(), device.cpu_cores),
                                options);
}

Result<std::vector<LoadRow>> Measure(const EvaluateLoadFlags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto stranger, StrangerProgram(flags.stranger));
  HASE_ASSIGN_OR_RETURN(Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(const auto store, OpenSamples(flags.state, machine));
  HASE_RETURN_IF_ERROR(TakeMeasuredBenches(machine, store));
  if (machine.cluster.devices.empty()) return Usage("this machine has no device");
  auto names = SplitList(flags.devices);
  if (names.empty()) names = {machine.cluster.devices.front().name};
  std::vector<LoadRow> all;
  for (const auto& name : names) {
    HASE_ASSIGN_OR_RETURN(const auto id, FindDevice(machine.cluster, name));
    HASE_ASSIGN_OR_RETURN(auto rows, MeasureDevice(machine, machine.cluster.devices[id.index()],
                                                   flags, stranger, store));
    std::ranges::move(rows, std::back_inserter(all));
  }
  return all;
}

struct Line {
  std::string device, what;
  latency::LoadScore score;
};

using Key = std::function<std::string(const LoadRow&)>;
std::vector<Line> LinesBy(const std::vector<LoadRow>& rows, const Key& key) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, std::vector<const LoadRow*>> groups;
  for (const auto& row : rows) {
    const std::pair at{row.device, key(row)};
    if (groups[at].empty()) order.push_back(at);
    groups[at].push_back(&row);
  }
  std::vector<Line> lines;
  for (const auto& at : order) lines.push_back({at.first, at.second, ScoreOf(groups[at])});
  return lines;
}

ordered_json ToJson(const std::vector<Line>& lines, const char* what) {
  auto list = ordered_json::array();
  for (const auto& line : lines) {
    list.push_back({{"device", line.device},
                    {what, line.what},
                    {"rows", line.score.rows},
                    {"mape", line.score.error},
                    {"mape_counter_blind", line.score.blind},
                    {"worst", line.score.worst}});
  }
  return list;
}

void Print(const std::vector<Line>& lines) {
  for (const auto& line : lines) {
    fmt::print("{:<14} {:<46} {:>5} {:>8.1f} {:>8.1f} {:>8.1f}\n", line.device, line.what,
               line.score.rows, 100 * line.score.error, 100 * line.score.blind,
               100 * line.score.worst);
  }
}

// Rows that say something of strangers: not those without any, nor those of fitted pairs.
std::string RoleOf(const LoadRow& row) {
  if (!row.ledger.empty()) return "tenants of HASE's own, by the ledger";
  if (row.stranger == "none") return "no stranger";
  return row.fitted ? "stranger or model the law was fitted on" : "held out";
}

}  // namespace

Result<int> EvaluateLoad(const EvaluateLoadFlags& flags) {
  std::vector<LoadRow> rows;
  if (flags.replay.empty()) {
    HASE_ASSIGN_OR_RETURN(rows, Measure(flags));
  } else {
    HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(flags.replay));
    HASE_ASSIGN_OR_RETURN(rows, latency::ParseLoadRows(flags.replay, text));
  }
  if (rows.empty()) return Invalid("no rows to score");
  if (!flags.record.empty()) {
    std::string text;
    for (const auto& row : rows) text += ToJsonLine(row) + "\n";
    HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.record, text));
  }
  const auto roles = LinesBy(rows, RoleOf);
  const auto strangers = LinesBy(rows, [](const LoadRow& row) { return row.stranger; });
  std::vector<LoadRow> held_out;
  for (const auto& row : rows) {
    if (RoleOf(row) == "held out") held_out.push_back(row);
  }
  const auto models = LinesBy(held_out, [](const LoadRow& row) { return row.model; });
  if (flags.json) {
    auto list = ordered_json::array();
    for (const auto& row : rows) {
      list.push_back({{"device", row.device},
                      {"model", row.model},
                      {"stranger", row.stranger},
                      {"fitted", row.fitted},
                      {"solo_ms", row.solo_ms},
                      {"observed_ms", row.observed_ms},
                      {"predicted_ms", PredictedMs(row)},
                      {"counter_blind_ms", BlindMs(row)}});
    }
    fmt::print("{}\n", ordered_json{{"overall", ToJson(roles, "rows_of")},
                                    {"strangers", ToJson(strangers, "stranger")},
                                    {"models", ToJson(models, "model")},
                                    {"rows", list}}
                           .dump(2));
    return 0;
  }
  fmt::print("{:<14} {:<46} {:>5} {:>8} {:>8} {:>8}\n", "device", "stranger", "rows", "error %",
             "blind %", "worst %");
  Print(strangers);
  fmt::print("\nheld-out rows by model\n");
  Print(models);
  fmt::print("\nall\n");
  Print(roles);
  return 0;
}

}  // namespace hase::cli

// hase profile: whole-model and kernel times of models on this machine's partitions.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include <charconv>

#include "apps/cli/commands.h"
#include "apps/cli/number_check.h"
#include "apps/cli/profiling.h"
#include "base/paths.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string cluster, models, batches = "1";
  double time_limit_s = 10;
  bool json = false;
  ProfilePlan plan;
};

Status ReadLists(Flags& flags) {
  flags.plan.models = SplitList(flags.models);
  flags.plan.batches.clear();
  for (const auto& text : SplitList(flags.batches)) {
    int64_t batch = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), batch);
    if (code != std::errc() || end != text.data() + text.size() || batch < 1) {
      return Usage(fmt::format("--batches: '{}' is not a whole number of at least 1", text));
    }
    flags.plan.batches.push_back(batch);
  }
  if (flags.plan.models.empty()) return Usage("--models names no model");
  if (flags.plan.batches.empty()) return Usage("--batches names no batch");
  flags.plan.max_time = FromSeconds(flags.time_limit_s);
  return {};
}

nlohmann::ordered_json ToJson(const ProfileRow& row) {
  nlohmann::ordered_json json = {{"model", row.model},
                                 {"batch", row.batch},
                                 {"device", row.device},
                                 {"stored", row.stored},
                                 {"latency_ms", row.whole.latency_us / 1000},
                                 {"spread", row.whole.spread},
                                 {"runs", row.whole.repeats},
                                 {"load_ms", ToMillis(row.whole.load_time)},
                                 {"memory_load_bytes", row.whole.memory_load.value()},
                                 {"memory_run_bytes", row.whole.memory_run.value()},
                                 {"kernels", row.kernels}};
  if (row.factor > 0) {
    json["profiler_factor"] = row.factor;
    json["unmatched"] = row.unmatched;
    json["kernels_missing"] = row.missing;
  }
  return json;
}

void Print(const std::vector<ProfileRow>& rows) {
  fmt::print("{:<17} {:>3} {:<11} {:>8} {:>6} {:>4} {:>6} {:>5} {:>5} {:>4} {:>6}\n", "model", "n",
             "device", "ms", "spread", "runs", "load s", "load", "run", "kern", "factor");
  for (const auto& row : rows) {
    const auto& w = row.whole;
    fmt::print("{:<17} {:>3} {:<11} {:>8.2f} {:>5.1f}% {:>4} {:>6.2f} {:>5} {:>5} {:>4} {:>6}\n",
               row.model, row.batch, row.device, w.latency_us / 1000, 100 * w.spread, w.repeats,
               ToMillis(w.load_time) / 1000, w.memory_load.value() >> 20,
               w.memory_run.value() >> 20, row.kernels > 0 ? std::to_string(row.kernels) : "-",
               row.stored       ? "stored"
               : row.factor > 0 ? fmt::format("{:.3f}", row.factor)
                                : "-");
  }
  fmt::print("n: batch; load, run: peak memory in MiB; kern: kernels\n");
}

Result<int> Run(Flags& flags) {
  HASE_RETURN_IF_ERROR(ReadLists(flags));
  HASE_ASSIGN_OR_RETURN(const Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(auto store, OpenSamples(flags.plan.state, machine));
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  model::ModelLibrary library(data);
  std::vector<ProfileRow> rows;
  {
    Progress progress;
    HASE_ASSIGN_OR_RETURN(rows, RunProfiles(machine, store, library, flags.plan,
                                            [&](const std::string& line) { progress.Show(line); }));
  }
  for (const auto& row : rows) {
    if (row.unmatched <= execution::kMostUnmatched) continue;
    fmt::print(
        stderr,
        "hase profile: {} batch {}: {:.0f} % of the time is in nodes its kernel list does not "
        "have; only the whole-model time was kept\n",
        row.model, row.batch, 100 * row.unmatched);
  }
  if (flags.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& row : rows) list.push_back(ToJson(row));
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"machine", machine.fingerprint}, {"profiles", list}}.dump(2));
  } else {
    Print(rows);
  }
  return 0;
}

}  // namespace

Action SetUpProfile(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--models", flags->models, "Zoo names or .onnx files, by comma")->required();
  command.add_option("--batches", flags->batches, "Batch sizes, by comma")->capture_default_str();
  command.add_option("--cluster", flags->cluster, "cluster.yaml (default: this machine)");
  command.add_option("--device", flags->plan.device, "Only this device or type, in full");
  command.add_option("--state", flags->plan.state, "State folder");
  command.add_option("--time-limit-s", flags->time_limit_s, "Greatest time of running one pair")
      ->check(NumberIn(0.001, 3600));
  command
      .add_option("--rounds", flags->plan.rounds,
                  "Measure each pair in so many fresh workers and keep medians")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command.add_flag("!--no-calibrate", flags->plan.calibrate,
                   "Leave out the sweep of kernels that a device never calibrated gets");
  command.add_flag("--force", flags->plan.force, "Measure again what is stored");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace hase::cli

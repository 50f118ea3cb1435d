// hase evaluate: how wrong the predictor is on rows it was not trained on.
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <memory>
#include <unordered_set>

#include "apps/cli/commands.h"
#include "apps/cli/evaluate_cpu.h"
#include "apps/cli/evaluate_load.h"
#include "apps/cli/evaluate_modes.h"
#include "apps/evaluation_page.h"
#include "base/file.h"
#include "base/paths.h"
#include "latency/training/evaluation.h"
#include "latency/training/model_level.h"
#include "latency/training/pair_evaluation.h"

namespace hase::cli {
namespace {

using nlohmann::json;

struct EvaluateFlags {
  std::vector<std::string> data;
  std::vector<std::string> sets, ablate;
  std::string model, holdout, split = "all", residuals, html;
  int calibrate = 0, threads = 2;
  int64_t sample = 0;
  bool models = false, calibration_networks = false, pairs = false, json = false;
  bool cpu = false, load = false;
  EvaluateLoadFlags load_flags;
};

Result<std::unordered_set<uint32_t>> ReadUsed(const std::string& model) {
  HASE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(model + ".rows.xz"));
  HASE_ASSIGN_OR_RETURN(const auto digests, latency::UnpackDigests(bytes));
  return std::unordered_set<uint32_t>(digests.begin(), digests.end());
}

json ToJson(const latency::Group& g) {
  json out = {{"dataset", g.data_set},
              {"device", g.device},
              {"op_class", g.op_class},
              {"precision", g.precision},
              {"rows", g.rows},
              {"mape", g.mape},
              {"median_ape", g.median_ape},
              {"r2_log", g.r2_log},
              {"coverage", g.coverage},
              {"interval_score", g.interval_score},
              {"constant_width_score", g.constant_score}};
  if (g.uncalibrated_mape != g.mape) out["uncalibrated_mape"] = g.uncalibrated_mape;
  const auto& b = g.baselines;
  if (!b.source_card.empty()) {
    out["scaled_roofline"] = {
        {"source_card", b.source_card}, {"rows", g.rows}, {"mape", b.scaled_roofline_mape}};
    out["same_kernel_scaled"] = {{"source_card", b.source_card}, {"rows", b.same_kernel_rows}};
    if (b.same_kernel_rows > 0) {
      out["same_kernel_scaled"]["mape"] = b.same_kernel_mape;
      out["same_kernel_scaled"]["predictor_uncalibrated_mape"] = b.uncalibrated_on_same;
      out["same_kernel_scaled"]["predictor_mape"] = b.calibrated_on_same;
    }
  }
  return out;
}

void PrintHeldOut(const latency::Evaluation::HeldOut& h) {
  fmt::print(
      "means over op classes: no measurement {:.2f} %, calibrated {:.2f} %, scaled roofline {:.2f} "
      "%\n"
      "kernels that the source card measured too: scaled {:.2f} %, no measurement {:.2f} %, "
      "calibrated {:.2f} %\n",
      100 * h.uncalibrated_mape, 100 * h.mape, 100 * h.scaled_roofline_mape,
      100 * h.same_kernel_mape, 100 * h.uncalibrated_on_same, 100 * h.calibrated_on_same);
}

void PrintTable(const latency::Evaluation& e) {
  fmt::print("{:<17} {:<12} {:<5} {:>6} {:>7} {:>7} {:>7} {:>5} {:>5}\n", "device", "op class",
             "prec", "rows", "MAPE %", "median", "R2 log", "cover", "width");
  std::string data_set;
  for (const auto& g : e.groups) {
    if (g.data_set != data_set) fmt::print("{}\n", data_set = g.data_set);
    fmt::print("{:<17} {:<12} {:<5} {:>6} {:>7.2f} {:>7.2f} {:>7.4f} {:>5.3f} {:>5.2f}\n", g.device,
               g.op_class, g.precision, g.rows, 100 * g.mape, 100 * g.median_ape, g.r2_log,
               g.coverage, g.interval_score / g.constant_score);
    if (const auto& b = g.baselines; !b.source_card.empty()) {
      fmt::print("  roofline scaled by {}: {:.1f} %, its kernels scaled: {:.1f} % of {} rows\n",
                 b.source_card, 100 * b.scaled_roofline_mape, 100 * b.same_kernel_mape,
                 b.same_kernel_rows);
    }
    if (g.uncalibrated_mape != g.mape) {
      fmt::print("  uncalibrated {:.1f} %\n", 100 * g.uncalibrated_mape);
    }
  }
  fmt::print(
      "width = interval score / that of constant-width conformal intervals\n"
      "rows scored {}, skipped as trained on {}, outside the split {}, calibration kernels {}\n"
      "groups of >= {} rows: {} of {} cover 76-84 %, mean width {:.3f}\n"
      "mean of groups {:.2f} %; headline (op classes, NVIDIA devices, {} groups of >= {} rows) "
      "{:.2f} %\n",
      e.scored.size(), e.trained_rows, e.out_of_split, e.calibration_rows, latency::kHeadlineRows,
      e.covered_groups, e.large_groups, e.interval_score_ratio, 100 * e.mape_mean_of_groups,
      e.headline_groups, latency::kHeadlineRows, 100 * e.headline_mape);
}

// At most so many errors per (data set, device, op class), evenly spread: for simulated truth.
Status WriteResiduals(const std::string& path, const latency::Tables& tables,
                      const latency::Evaluation& e) {
  constexpr size_t kPerGroup = 240;
  std::map<std::string, std::vector<const latency::ScoredRow*>> groups;
  for (const auto& s : e.scored) {
    const auto& table = tables.tables[s.table];
    const auto& row = table.rows[s.row];
    groups[fmt::format("{},{}", table.data_set, tables.devices[row.device].name) + "," +
           std::string(ToString(row.op_class))]
        .push_back(&s);
  }
  std::string text = "dataset,device,model,op_class,log_error\n";
  for (const auto& [key, list] : groups) {
    const size_t count = std::min(kPerGroup, list.size());
    for (size_t i = 0; i < count; ++i) {
      const auto& s = *list[i * list.size() / count];
      const auto& table = tables.tables[s.table];
      const auto& row = table.rows[s.row];
      // Lone kernels have no model: those of one channel block stand together in its place.
      text +=
          fmt::format("{},{},block-{},{},{:.5f}\n", table.data_set, tables.devices[row.device].name,
                      row.block, ToString(row.op_class), s.log_error);
    }
  }
  return WriteFileAtomically(path, text);
}

json ToJson(const latency::ModelGroup& g) {
  return {{"table", g.table},
          {"device", g.device},
          {"precision", g.precision},
          {"seen_card", g.seen},
          {"rows", g.rows},
          {"median_ape", g.median_ape},
          {"mape", g.mape},
          {"r2_log", g.r2_log},
          {"coverage", g.coverage},
          {"log_bias", g.bias},
          {"linear_fit", {{"median_ape", g.fit_median_ape}, {"r2_log", g.fit_r2_log}}}};
}

Result<int> RunModels(const EvaluateFlags& flags) {
  const std::vector<std::filesystem::path> paths(flags.data.begin(), flags.data.end());
  HASE_ASSIGN_OR_RETURN(const auto rows, latency::ReadModelRows(paths));
  HASE_ASSIGN_OR_RETURN(const auto model, latency::KernelModel::Load(flags.model));
  HASE_ASSIGN_OR_RETURN(
      const auto result,
      latency::EvaluateModels(rows, model,
                              flags.calibration_networks ? latency::ModelSplit::kCalibration
                                                         : latency::ModelSplit::kTest));
  int64_t unmapped = 0;
  for (const auto& [name, count] : rows.unmapped) unmapped += count;
  if (flags.json) {
    json groups = json::array(), scores = json::array();
    for (const auto& g : result.groups) groups.push_back(ToJson(g));
    for (const auto& s : result.scores) {
      scores.push_back({{"table", s.row.table},
                        {"device", s.row.device},
                        {"model", s.row.model},
                        {"batch", s.row.batch},
                        {"precision", ToString(s.row.precision)},
                        {"measured_ms", s.row.measured_ms},
                        {"predicted_ms", s.predicted_ms},
                        {"linear_fit_ms", s.fit_ms},
                        {"extrapolated", s.extrapolated}});
    }
    const json out = {{"groups", groups},
                      {"models", scores},
                      {"unmapped", rows.unmapped},
                      {"dropped", result.dropped}};
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("{:<22} {:<16} {:<5} {:<6} {:>5} {:>8} {:>7} {:>6} {:>6} {:>12} {:>7}\n", "table",
             "device", "prec", "card", "rows", "median %", "R2 log", "cover", "bias",
             "fit median %", "fit R2");
  for (const auto& g : result.groups) {
    fmt::print(
        "{:<22} {:<16} {:<5} {:<6} {:>5} {:>8.1f} {:>7.3f} {:>6.2f} {:>6.2f} {:>12.1f} "
        "{:>7.3f}\n",
        g.table, g.device, g.precision, g.seen ? "seen" : "unseen", g.rows, 100 * g.median_ape,
        g.r2_log, g.coverage, g.bias, 100 * g.fit_median_ape, g.fit_r2_log);
  }
  fmt::print("rows of networks that the zoo lacks: {} ({} names; --json lists them)\n", unmapped,
             rows.unmapped.size());
  for (const auto& [reason, count] : result.dropped) fmt::print("dropped {}: {}\n", count, reason);
  return 0;
}

json ToJson(const latency::PairErrors& e) {
  return {{"mape", e.mape}, {"median_ape", e.median_ape}};
}

Result<int> RunPairs(const EvaluateFlags& flags) {
  const std::vector<std::filesystem::path> paths(flags.data.begin(), flags.data.end());
  HASE_ASSIGN_OR_RETURN(const auto rows, latency::ReadPairRows(paths));
  const auto groups = latency::EvaluatePairs(rows);
  if (flags.json) {
    json list = json::array();
    for (const auto& g : groups) {
      list.push_back({{"card", g.card},
                      {"jobs", g.jobs},
                      {"pairs", g.pairs},
                      {"rows", g.rows},
                      {"model", ToJson(g.model)},
                      {"two_sided_factors", ToJson(g.two_sided)},
                      {"job_factor", ToJson(g.job_factor)},
                      {"constant", ToJson(g.constant)},
                      {"rank", {g.least_rank, g.greatest_rank}}});
    }
    const json out = {{"groups", list}, {"dropped", rows.dropped}};
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("{:<8} {:>5} {:>6} {:>6} {:>9} {:>8} {:>16} {:>14} {:>12} {:>6}\n", "card", "jobs",
             "pairs", "rows", "MAPE %", "median", "job and partner", "factor of job", "constant",
             "rank");
  for (const auto& g : groups) {
    fmt::print("{:<8} {:>5} {:>6} {:>6} {:>9.2f} {:>8.2f} {:>16.2f} {:>14.2f} {:>12.2f} {:>4}-{}\n",
               g.card, g.jobs, g.pairs, g.rows, 100 * g.model.mape, 100 * g.model.median_ape,
               100 * g.two_sided.mape, 100 * g.job_factor.mape, 100 * g.constant.mape, g.least_rank,
               g.greatest_rank);
  }
  fmt::print("throughput beside another job, every pair predicted from the other four folds\n");
  for (const auto& [reason, count] : rows.dropped) fmt::print("dropped {}: {}\n", count, reason);
  return 0;
}

apps::EvaluationPage PageOf(const EvaluateFlags& flags, const latency::ModelFile& model) {
  std::string subtitle = "Rows that were not trained on; split: " + flags.split;
  if (!flags.holdout.empty()) {
    subtitle = fmt::format("{} left out of training", flags.holdout);
    if (flags.calibrate > 0) subtitle += fmt::format(", {} kernels to calibrate", flags.calibrate);
  }
  for (const auto& what : flags.ablate) subtitle += "; without " + what;
  return {"How wrong the predictor of GPU kernels is",
          fmt::format("{}. {} tree ensembles.", subtitle, model.ensembles.size())};
}

Result<int> RunEvaluate(EvaluateFlags flags) {
  if (flags.load) {
    flags.load_flags.json = flags.json;
    return EvaluateLoad(flags.load_flags);
  }
  if (flags.cpu) {
    const auto& f = flags.load_flags;
    return EvaluateCpu({.device = f.devices,
                        .state = f.state,
                        .cluster = f.cluster,
                        .rows = flags.residuals,
                        .record = f.record,
                        .replay = f.replay,
                        .json = flags.json});
  }
  if (flags.data.empty()) return Usage("--data names no folder (see hase evaluate --help)");
  if (flags.pairs) return RunPairs(flags);
  if (flags.model.empty()) {
    HASE_ASSIGN_OR_RETURN(const auto path, DataFile("predictor.bin"));
    flags.model = path.string();
  }
  if (flags.models) return RunModels(flags);
  if (flags.calibrate > 0 && flags.holdout.empty()) {
    return Usage("--calibrate needs --holdout-device: seen devices need no calibration");
  }
  const std::vector<std::filesystem::path> paths(flags.data.begin(), flags.data.end());
  HASE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(flags.model));
  HASE_ASSIGN_OR_RETURN(const auto model, latency::ReadModelFile(flags.model, bytes));
  HASE_ASSIGN_OR_RETURN(const auto used, ReadUsed(flags.model));
  latency::EvaluateOptions options;
  options.split = flags.split == "geometry" ? latency::Split::kGeometry
                  : flags.split == "block"  ? latency::Split::kBlock
                                            : latency::Split::kUntrained;
  if (!flags.holdout.empty()) {
    HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
    HASE_ASSIGN_OR_RETURN(const auto spec, catalogue.Find(flags.holdout));
    options.holdout_device = spec.name;
  }
  const auto keep = [&](const latency::TableRow& row, latency::Convention convention,
                        const cluster::DeviceSpec& spec) {
    return options.holdout_device && (spec.name == *options.holdout_device ||
                                      latency::KeptForTraining(row, convention, spec));
  };
  const bool sessions = std::ranges::find(flags.ablate, "session") == flags.ablate.end();
  HASE_ASSIGN_OR_RETURN(auto tables, latency::LoadTables(paths, flags.sets, keep, sessions));
  options.calibrate = flags.calibrate;
  options.ablate = flags.ablate;
  if (std::erase(options.ablate, "calibration") > 0) {
    if (flags.holdout.empty()) {
      return Usage("--ablate calibration needs --holdout-device: seen devices have none");
    }
    options.calibrate = 0;
  }
  options.sample = flags.sample;
  options.threads = flags.threads;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const std::string& text) {
    if (terminal) fmt::print(stderr, "\r\033[K{}", text);
  };
  HASE_ASSIGN_OR_RETURN(const auto result,
                        latency::Evaluate(tables, model, used, options, progress));
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!flags.residuals.empty()) {
    HASE_RETURN_IF_ERROR(WriteResiduals(flags.residuals, tables, result));
  }
  if (!flags.html.empty()) {
    HASE_RETURN_IF_ERROR(apps::WriteEvaluation(flags.html, PageOf(flags, model), tables, result));
  }
  if (!flags.json) {
    for (const auto& [reason, rows] : tables.report.dropped) {
      fmt::print("dropped {:>8} rows: {}\n", rows, reason);
    }
    PrintTable(result);
    if (options.holdout_device) PrintHeldOut(result.held_out);
    return 0;
  }
  json groups = json::array();
  for (const auto& g : result.groups) groups.push_back(ToJson(g));
  json out = {{"groups", std::move(groups)},
              {"overall",
               {{"mape_mean_of_groups", result.mape_mean_of_groups},
                {"headline_mape", result.headline_mape},
                {"headline_groups", result.headline_groups},
                {"large_groups", result.large_groups},
                {"covered_groups", result.covered_groups},
                {"interval_score_ratio", result.interval_score_ratio},
                {"rows_scored", result.scored.size()},
                {"rows_trained_on", result.trained_rows},
                {"rows_outside_split", result.out_of_split},
                {"calibration_kernels", result.calibration_rows},
                {"dropped", tables.report.dropped}}}};
  if (options.holdout_device) {
    const auto& h = result.held_out;
    out["held_out"] = {{"mape", h.mape},
                       {"uncalibrated_mape", h.uncalibrated_mape},
                       {"scaled_roofline_mape", h.scaled_roofline_mape},
                       {"same_kernel_scaled_mape", h.same_kernel_mape},
                       {"uncalibrated_on_same_kernels_mape", h.uncalibrated_on_same},
                       {"on_same_kernels_mape", h.calibrated_on_same}};
  }
  fmt::print("{}\n", out.dump(2));
  return 0;
}

}  // namespace

Action SetUpEvaluate(CLI::App& command) {
  auto flags = std::make_shared<EvaluateFlags>();
  command.add_option("--data", flags->data, "Folders that hold data sets, at any depth");
  command.add_option("--set", flags->sets, "Only these data sets, by comma (default: all known)")
      ->delimiter(',');
  command.add_option("--model", flags->model,
                     "Trained predictor (default: the shipped one); FILE.rows.xz lies beside it");
  command
      .add_option("--split", flags->split,
                  "geometry: test bucket only; block: retrain without a tenth of the channel "
                  "blocks; all: every row never trained on")
      ->capture_default_str()
      ->check(CLI::IsMember({"geometry", "block", "all"}));
  command.add_option("--holdout-device", flags->holdout, "Retrain without this device, score it");
  command
      .add_option("--calibrate", flags->calibrate,
                  "Kernels of the held-out device to calibrate with")
      ->check(CLI::Range(0, 100000));
  command
      .add_option(
          "--ablate", flags->ablate,
          "Retrain without: roofline, tiles, specification, session (where in its session a "
          "row was measured), calibration (of a held-out device); may be repeated")
      ->check(CLI::IsMember({"roofline", "tiles", "specification", "session", "calibration"}));
  command
      .add_option("--sample", flags->sample,
                  "Training rows per ensemble where it retrains (0 = all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command.add_option("--threads", flags->threads, "Threads where it retrains")
      ->check(CLI::Range(1, 256));
  command.add_option("--residuals", flags->residuals,
                     "Write the errors as CSV (sampled, but for --cpu)");
  command.add_option("--html", flags->html, "Write a page with charts and the worst kernels");
  command.add_flag("--models", flags->models,
                   "Score whole models against published tables instead of kernels");
  command.add_flag("--calibration-networks", flags->calibration_networks,
                   "With --models: score the three networks that constants were fitted on instead");
  command.add_flag("--pairs", flags->pairs,
                   "Score pairs of jobs that share a card (Gavel), held out in five folds");
  command.add_flag("--cpu", flags->cpu,
                   "Score the CPU predictor on this machine's profiles, a model family left out");
  command.add_flag("--load", flags->load,
                   "Run models beside strangers on this machine's CPU and predict them from live "
                   "counters");
  command.add_option("--device", flags->load_flags.devices,
                     "--cpu, --load: CPU devices by comma (default: the first)");
  command.add_option("--load-models", flags->load_flags.models, "--load: models by comma");
  command.add_option("--stranger", flags->load_flags.stranger,
                     "--load: the program hase_stranger (default: beside hase)");
  command.add_option("--record", flags->load_flags.record,
                     "--cpu, --load: write what was measured to this file");
  command.add_option("--replay", flags->load_flags.replay,
                     "--cpu, --load: score a recording instead of this machine");
  command.add_option("--cluster", flags->load_flags.cluster,
                     "--cpu, --load: cluster.yaml (default: this machine)");
  command.add_option("--state", flags->load_flags.state, "--cpu, --load: state folder");
  command.add_flag("--json", flags->json, "Machine-readable output");
  return [flags, &command]() -> Result<int> {
    HASE_RETURN_IF_ERROR(CheckEvaluateMode(command));
    return RunEvaluate(*flags);
  };
}

}  // namespace hase::cli

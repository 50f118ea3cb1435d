#include "apps/evaluation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "measurement/report/assets.h"

// Put in by the assembler, as the report's page is. HASE_EVALUATION_PAGE is a path from CMake.
__asm__(
    ".section .rodata\n.global hase_evaluation_page\n.balign 16\nhase_evaluation_page:\n"
    ".incbin \"" HASE_EVALUATION_PAGE
    "\"\n.global hase_evaluation_page_end\nhase_evaluation_page_end:\n.byte 0\n.text\n");
extern "C" {
extern const char hase_evaluation_page[], hase_evaluation_page_end[];
}

namespace hase::apps {
namespace {

using latency::Evaluation;
using latency::ScoredRow;
using latency::Table;
using latency::TableRow;
using latency::Tables;
using nlohmann::json;

constexpr size_t kPoints = 6000, kWorst = 50;

double Ape(const ScoredRow& s) { return std::abs(std::exp(-s.log_error) - 1); }

// What a row's kernel looks like, from its features.
std::string Describe(const Table& table, uint32_t row) {
  const auto& names = latency::FeatureNames(table.family);
  const auto x = table.Row(row);
  const auto plain = [&](std::string_view name) {
    const auto it = std::ranges::find(names, name);
    return it == names.end() ? 0.0 : x[static_cast<size_t>(it - names.begin())];
  };
  const auto size = [&](std::string_view name) {
    return static_cast<int64_t>(std::llround(std::exp(plain(name))));
  };
  switch (table.family) {
    case latency::Family::kConv:
      return fmt::format("batch {}, {} channels {}x{} to {}, kernel {:.0f}x{:.0f} stride {:.0f}{}",
                         size("batch"), size("in_channels"), size("height"), size("width"),
                         size("out_channels"), plain("kernel_h"), plain("kernel_w"),
                         plain("stride"), plain("fused_add") > 0 ? ", add fused" : "");
    case latency::Family::kGemm:
      return fmt::format(
          "{} x {} x {}{}", size("m"), size("n"), size("k"),
          size("gemm_batch") > 1 ? fmt::format(", {} of them", size("gemm_batch")) : std::string());
    case latency::Family::kMemory:
      return fmt::format("{} rows of {}", size("rows"), size("columns"));
  }
  return "";
}

// Mean and median of errors, with how many.
class Errors {
 public:
  void Add(double ape) { ape_.push_back(ape); }
  json ToJson() {
    double sum = 0;
    for (const double e : ape_) sum += e;
    std::ranges::sort(ape_);
    return {{"rows", ape_.size()},
            {"mape", sum / static_cast<double>(ape_.size())},
            {"median", ape_[ape_.size() / 2]},
            {"p90", ape_[ape_.size() * 9 / 10]}};
  }

 private:
  std::vector<double> ape_;
};

json GroupsOf(const Evaluation& e) {
  json out = json::array();
  for (const auto& g : e.groups) {
    out.push_back({{"dataset", g.data_set},
                   {"device", g.device},
                   {"op", g.op_class},
                   {"precision", g.precision},
                   {"rows", g.rows},
                   {"mape", g.mape},
                   {"median", g.median_ape},
                   {"coverage", g.coverage},
                   {"width", g.interval_score / std::max(1e-12, g.constant_score)}});
  }
  return out;
}

json PointsOf(const Tables& tables, const Evaluation& e) {
  json out = json::array();
  const size_t count = std::min(kPoints, e.scored.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& s = e.scored[i * e.scored.size() / count];
    const TableRow& r = tables.tables[s.table].rows[s.row];
    const double predicted = r.latency_us * std::exp(-s.log_error);
    out.push_back({std::round(predicted * 100) / 100, std::round(r.latency_us * 100) / 100,
                   static_cast<int>(r.op_class), r.device});
  }
  return out;
}

json WorstOf(const Tables& tables, const Evaluation& e) {
  std::vector<const ScoredRow*> order;
  for (const auto& s : e.scored) order.push_back(&s);
  const size_t count = std::min(kWorst, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<int64_t>(count), order.end(),
      [](const auto* a, const auto* b) { return std::abs(a->log_error) > std::abs(b->log_error); });
  json out = json::array();
  for (size_t i = 0; i < count; ++i) {
    const Table& table = tables.tables[order[i]->table];
    const TableRow& r = table.rows[order[i]->row];
    out.push_back({{"dataset", table.data_set},
                   {"device", tables.devices[r.device].name},
                   {"op", ToString(r.op_class)},
                   {"precision", ToString(r.precision)},
                   {"kernel", Describe(table, order[i]->row)},
                   {"measured_us", r.latency_us},
                   {"predicted_us", r.latency_us * std::exp(-order[i]->log_error)},
                   {"roofline_us", r.roofline_us}});
  }
  return out;
}

}  // namespace

std::string RenderEvaluation(const EvaluationPage& page, const Tables& tables,
                             const Evaluation& e) {
  std::map<std::string, std::map<int, Errors>> by_size;  // op class -> third of a decade -> errors
  std::map<std::string, Errors> by_precision, by_class;
  double inside = 0;
  for (const auto& s : e.scored) {
    const TableRow& r = tables.tables[s.table].rows[s.row];
    const std::string op(ToString(r.op_class));
    by_size[op][static_cast<int>(std::floor(3 * std::log10(r.latency_us)))].Add(Ape(s));
    by_precision[std::string(ToString(r.precision))].Add(Ape(s));
    by_class[op].Add(Ape(s));
    inside += s.log_error >= s.low && s.log_error <= s.high ? 1 : 0;
  }
  json sizes = json::object(), precisions = json::object(), classes = json::object();
  for (auto& [op, bins] : by_size) {
    for (auto& [bin, errors] : bins) {
      json entry = errors.ToJson();
      entry["us"] = std::pow(10, (bin + 0.5) / 3);
      sizes[op].push_back(std::move(entry));
    }
  }
  for (auto& [name, errors] : by_precision) precisions[name] = errors.ToJson();
  for (auto& [name, errors] : by_class) classes[name] = errors.ToJson();
  json ops = json::array(), devices = json::array();
  for (int i = 0; i < model::kOpClassCount; ++i) {
    ops.push_back(ToString(static_cast<model::OpClass>(i)));
  }
  for (const auto& d : tables.devices) devices.push_back(d.name);
  const json data = {
      {"title", page.title},
      {"subtitle", page.subtitle},
      {"rows", e.scored.size()},
      {"trained", e.trained_rows},
      {"headline", e.headline_mape},
      {"headline_groups", e.headline_groups},
      {"mean_of_groups", e.mape_mean_of_groups},
      {"large_groups", e.large_groups},
      {"covered_groups", e.covered_groups},
      {"coverage", inside / static_cast<double>(std::max<size_t>(1, e.scored.size()))},
      {"width", e.interval_score_ratio},
      {"ops", ops},
      {"devices", devices},
      {"groups", GroupsOf(e)},
      {"sizes", sizes},
      {"precisions", precisions},
      {"classes", classes},
      {"points", PointsOf(tables, e)},
      {"worst", WorstOf(tables, e)}};
  const std::string_view html(hase_evaluation_page,
                              static_cast<size_t>(hase_evaluation_page_end - hase_evaluation_page));
  return measurement::FillPage(html, data.dump(-1, ' ', false, json::error_handler_t::replace));
}

Status WriteEvaluation(const std::filesystem::path& path, const EvaluationPage& page,
                       const Tables& tables, const Evaluation& evaluation) {
  return WriteFileAtomically(path, RenderEvaluation(page, tables, evaluation));
}

}  // namespace hase::apps

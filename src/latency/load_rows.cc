#include "latency/load_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_reason.h"
#include "cluster/telemetry/sources.h"

namespace hase::latency {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const Demand& d) {
  return {{"compute_part", d.compute_part},
          {"bandwidth_part", d.bandwidth_part},
          {"launch_part", d.launch_part},
          {"sm", d.sm},
          {"dram", d.dram},
          {"share", d.share}};
}

Demand DemandFrom(const ordered_json& json) {
  Demand d;
  d.compute_part = json.at("compute_part");
  d.bandwidth_part = json.at("bandwidth_part");
  d.launch_part = json.at("launch_part");
  d.sm = json.at("sm");
  d.dram = json.at("dram");
  d.share = json.at("share");
  return d;
}

LoadRow RowFrom(const ordered_json& json) {
  LoadRow row;
  row.model = json.at("model");
  row.device = json.at("device");
  row.stranger = json.at("stranger");
  row.fitted = json.at("fitted");
  row.batch = json.at("batch");
  row.cores = json.at("cores").get<std::vector<int>>();
  row.quota = json.at("quota");
  row.solo_ms = json.at("solo_ms");
  row.observed_ms = json.at("observed_ms");
  row.demand = DemandFrom(json.at("demand"));
  for (const auto& d : json.at("ledger")) row.ledger.push_back(DemandFrom(d));
  const auto& quiet = json.at("quiet");
  row.quiet = {quiet.at("compute_ns"), quiet.at("stream_ns"), quiet.at("latency_ns")};
  return row;
}

double Ms(const LoadRow& row, const ForeignLoad& foreign) {
  SharingLaw law;
  law.kind = SharingKind::kCpu;
  law.quota = row.quota;
  return row.solo_ms * Slowdown(row.demand, row.ledger, foreign, law);
}

}  // namespace

std::string ToJsonLine(const LoadRow& row) {
  auto ledger = ordered_json::array();
  for (const auto& d : row.ledger) ledger.push_back(ToJson(d));
  const ordered_json json = {
      {"model", row.model},
      {"device", row.device},
      {"stranger", row.stranger},
      {"fitted", row.fitted},
      {"batch", row.batch},
      {"cores", row.cores},
      {"quota", row.quota},
      {"solo_ms", row.solo_ms},
      {"observed_ms", row.observed_ms},
      {"demand", ToJson(row.demand)},
      {"ledger", ledger},
      {"quiet",
       {{"compute_ns", row.quiet.compute_ns},
        {"stream_ns", row.quiet.stream_ns},
        {"latency_ns", row.quiet.latency_ns}}},
      {"snapshot", ordered_json::parse(cluster::telemetry::ToJsonLine(row.snapshot))}};
  return json.dump();
}

Result<std::vector<LoadRow>> ParseLoadRows(const std::string& name, std::string_view text) {
  std::vector<LoadRow> rows;
  size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string where = fmt::format("{}:{}", name, line);
    if (end > start) {
      try {
        const auto json = ordered_json::parse(text.substr(start, end - start));
        LoadRow row = RowFrom(json);
        if (!(row.solo_ms > 0) || !(row.observed_ms > 0) || row.cores.empty()) {
          return Invalid(fmt::format("{}: times must be above 0 and cores named", where));
        }
        HASE_ASSIGN_OR_RETURN(row.snapshot,
                              cluster::telemetry::ParseSnapshot(where, json.at("snapshot").dump()));
        rows.push_back(std::move(row));
      } catch (const nlohmann::json::exception& e) {
        return Invalid(fmt::format("{}: {}", where, JsonReason(e.what())));
      }
    }
    start = end + 1;
  }
  return rows;
}

double PredictedMs(const LoadRow& row) {
  return Ms(row, CpuForeignLoad(row.snapshot, row.cores, row.quiet));
}
double BlindMs(const LoadRow& row) { return Ms(row, {}); }

LoadScore ScoreOf(std::span<const LoadRow* const> rows) {
  LoadScore score;
  for (const LoadRow* row : rows) {
    const double error = std::abs(PredictedMs(*row) / row->observed_ms - 1);
    score.error += error;
    score.blind += std::abs(BlindMs(*row) / row->observed_ms - 1);
    score.worst = std::max(score.worst, error);
    ++score.rows;
  }
  if (score.rows > 0) {
    score.error /= score.rows;
    score.blind /= score.rows;
  }
  return score;
}

}  // namespace hase::latency

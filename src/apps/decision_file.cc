#include "apps/decision_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hase::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKinds[] = {"start", "reserve", "wait", "reject"};  // as Decision's
const char* KindOf(const placement::Decision& decision) { return kKinds[decision.index()]; }

void AddSlots(const std::vector<placement::Slot>& slots, const cluster::Cluster& cluster,
              Json& line) {
  std::string devices;
  for (const auto& slot : slots) {
    devices += (devices.empty() ? "" : "+") + cluster.devices[slot.device.index()].name;
  }
  line["device"] = devices;
  line["share"] = slots.empty() ? 0.0 : ToFraction(slots[0].share);
}

void AddRecord(const placement::Record& record, const cluster::Cluster& cluster, Json& line) {
  line["why"] = record.why;
  line["predicted_finish_s"] = ToSeconds(record.predicted_finish);
  line["candidates"] = Json::array();
  for (const auto& c : record.candidates) {
    line["candidates"].push_back({{"device", cluster.devices[c.device.index()].name},
                                  {"share", ToFraction(c.share)},
                                  {"start_s", ToSeconds(c.start)},
                                  {"finish_s", ToSeconds(c.finish)},
                                  {"inflicted_s", ToSeconds(c.inflicted)},
                                  {"bound_by", c.bound_by}});
  }
}

double Number(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : 0;
}
std::string Text(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Lines of an event log have a `kind` as well.
bool IsRecord(const Json& json) {
  if (!json.is_object() || Text(json, "job").empty()) return false;
  const auto time = json.find("t_s");
  return time != json.end() && time->is_number() &&
         std::ranges::find(kKinds, Text(json, "kind")) != std::end(kKinds);
}

}  // namespace

void DecisionWriter::OnDecision(Nanos now, const placement::Decision& decision) {
  Json line;
  line["t_s"] = ToSeconds(now);
  line["kind"] = KindOf(decision);
  const JobId id = std::visit([](const auto& d) { return d.job; }, decision);
  line["job"] = jobs_[id.index()].job.job_id;
  if (const auto* start = std::get_if<placement::Start>(&decision)) {
    AddSlots(start->slots, cluster_, line);
    line["batch"] = start->batch;
    line["inputs"] = start->inputs;
    AddRecord(start->record, cluster_, line);
  } else if (const auto* reserve = std::get_if<placement::Reserve>(&decision)) {
    AddSlots(reserve->slots, cluster_, line);
    line["from_s"] = ToSeconds(reserve->from);
    line["probability"] = reserve->probability;
    AddRecord(reserve->record, cluster_, line);
  } else if (const auto* wait = std::get_if<placement::Wait>(&decision)) {
    AddRecord(wait->record, cluster_, line);
  } else if (const auto* reject = std::get_if<placement::Reject>(&decision)) {
    line["why"] = reject->why;
    line["nearest_feasible"] = reject->nearest_feasible;
  }
  text_ += line.dump();
  text_ += '\n';
}

Result<std::vector<StoredDecision>> ParseDecisions(const std::string& name, std::string_view text) {
  std::vector<StoredDecision> decisions;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const auto json = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!IsRecord(json)) {
      return Invalid(
          fmt::format("{}:{}: not a decision record (`hase simulate --decisions` writes "
                      "them)",
                      name, number));
    }
    StoredDecision d;
    d.t_s = Number(json, "t_s");
    d.kind = Text(json, "kind");
    d.job = Text(json, "job");
    d.device = Text(json, "device");
    d.why = Text(json, "why");
    d.nearest_feasible = Text(json, "nearest_feasible");
    d.share = Number(json, "share");
    d.from_s = Number(json, "from_s");
    d.probability = Number(json, "probability");
    d.predicted_finish_s = Number(json, "predicted_finish_s");
    d.batch = static_cast<int64_t>(Number(json, "batch"));
    d.inputs = static_cast<int64_t>(Number(json, "inputs"));
    if (const auto list = json.find("candidates"); list != json.end() && list->is_array()) {
      for (const auto& c : *list) {
        if (!c.is_object()) continue;
        d.candidates.push_back({Text(c, "device"), Text(c, "bound_by"), Number(c, "share"),
                                Number(c, "start_s"), Number(c, "finish_s"),
                                Number(c, "inflicted_s")});
      }
    }
    decisions.push_back(std::move(d));
  }
  return decisions;
}

}  // namespace hase::apps

// replay: snapshots recorded as JSON Lines (docs/formats.md, "Telemetry snapshots"), one for each
// poll, so that everything above telemetry can be tried without a device.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_reason.h"
#include "cluster/telemetry/sources.h"

namespace hase::cluster::telemetry {
namespace {

using nlohmann::ordered_json;

Result<Validity> ParseValidity(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(Validity::kContradictory); ++i) {
    if (ToString(static_cast<Validity>(i)) == text) return static_cast<Validity>(i);
  }
  return Invalid(fmt::format("unknown validity '{}'", text));
}

Result<DeviceReadings> ParseDevice(const ordered_json& json) {
  DeviceReadings device;
  device.device = json.at("device").get<std::string>();
  device.index = json.value("index", 0);
  device.model = json.value("model", "");
  device.mig_profile = json.value("mig_profile", "");
  device.host = json.value("host", "");
  device.tenants = json.value("tenants", std::vector<std::string>());
  for (const auto& [name, entry] : json.at("readings").items()) {
    size_t i = 0;
    while (i < kCounters && ToString(static_cast<Counter>(i)) != name) ++i;
    if (i == kCounters) return Invalid(fmt::format("unknown counter '{}'", name));
    Reading& reading = device.readings[i];
    // JSON has no NaN: such a reading has no value.
    reading.value = entry.value("value", 0.0);
    reading.age_s = entry.value("age_s", 0.0);
    HASE_ASSIGN_OR_RETURN(reading.validity, ParseValidity(entry.value("validity", "ok")));
  }
  return device;
}

class Replay : public Source {
 public:
  Replay(std::string name, std::vector<Snapshot> snapshots)
      : name_(std::move(name)), snapshots_(std::move(snapshots)) {}
  Result<Snapshot> Poll() override {
    if (next_ == snapshots_.size()) {
      return Unavailable(fmt::format("{}: all {} recorded snapshots were replayed", name_, next_));
    }
    return snapshots_[next_++];
  }

 private:
  std::string name_;
  std::vector<Snapshot> snapshots_;
  size_t next_ = 0;
};

}  // namespace

std::string ToJsonLine(const Snapshot& snapshot) {
  auto devices = ordered_json::array();
  for (const auto& device : snapshot.devices) {
    ordered_json readings = ordered_json::object();
    for (size_t i = 0; i < kCounters; ++i) {
      const Reading& reading = device.readings[i];
      if (reading.validity == Validity::kMissing) continue;
      ordered_json entry = {{"age_s", reading.age_s}, {"validity", ToString(reading.validity)}};
      if (reading.validity != Validity::kNotANumber) entry["value"] = reading.value;
      readings[std::string(ToString(static_cast<Counter>(i)))] = std::move(entry);
    }
    ordered_json json = {{"device", device.device}, {"index", device.index}};
    if (!device.model.empty()) json["model"] = device.model;
    if (!device.mig_profile.empty()) json["mig_profile"] = device.mig_profile;
    if (!device.host.empty()) json["host"] = device.host;
    if (!device.tenants.empty()) json["tenants"] = device.tenants;
    json["readings"] = std::move(readings);
    devices.push_back(std::move(json));
  }
  ordered_json json = {{"source", snapshot.source},
                       {"interval_s", snapshot.interval_s},
                       {"notes", snapshot.notes},
                       {"devices", std::move(devices)}};
  if (!snapshot.strangers.empty()) {
    auto& list = json["strangers"] = ordered_json::array();
    for (const Stranger& s : snapshot.strangers) {
      list.push_back({{"name", s.name},
                      {"group", s.group},
                      {"cores", s.cores},
                      {"core", s.core},
                      {"run", s.run},
                      {"wait", s.wait}});
    }
  }
  // Names of threads may hold bytes that are no UTF-8: replaced, not refused.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<Snapshot> ParseSnapshot(const std::string& where, std::string_view line) {
  try {
    const auto json = ordered_json::parse(line);
    Snapshot snapshot;
    snapshot.source = json.value("source", "replay");
    snapshot.interval_s = json.value("interval_s", 0.0);
    snapshot.notes = json.value("notes", std::vector<std::string>());
    for (const auto& entry : json.at("devices")) {
      auto device = ParseDevice(entry);
      if (!device) return Invalid(fmt::format("{}: {}", where, device.error().message));
      snapshot.devices.push_back(std::move(*device));
    }
    for (const auto& entry : json.value("strangers", ordered_json::array())) {
      snapshot.strangers.push_back({.name = entry.value("name", ""),
                                    .group = entry.value("group", ""),
                                    .cores = entry.value("cores", std::vector<int>()),
                                    .core = entry.value("core", -1),
                                    .run = entry.at("run").get<double>(),
                                    .wait = entry.value("wait", 0.0)});
      const Stranger& s = snapshot.strangers.back();
      if (s.run < 0 || s.run > 1 || s.wait < 0 || s.wait > 1) {
        return Invalid(
            fmt::format("{}: stranger '{}': run and wait are parts of the interval, "
                        "between 0 and 1",
                        where, s.name));
      }
    }
    return snapshot;
  } catch (const nlohmann::json::exception& e) {
    return Invalid(fmt::format("{}: {}", where, JsonReason(e.what())));
  }
}

Result<std::unique_ptr<Source>> MakeReplay(const SourceOptions& options) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.file));
  std::vector<Snapshot> snapshots;
  size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) {
      HASE_ASSIGN_OR_RETURN(Snapshot snapshot,
                            ParseSnapshot(fmt::format("{}:{}", options.file, line),
                                          std::string_view(text).substr(start, end - start)));
      snapshots.push_back(std::move(snapshot));
    }
    start = end + 1;
  }
  return std::make_unique<Replay>(options.file, std::move(snapshots));
}

}  // namespace hase::cluster::telemetry

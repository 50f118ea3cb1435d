#include "execution/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hase::execution {
namespace {

constexpr std::string_view kKinds[] = {"arrived",  "started", "chunk",    "finished",  "failed",
                                       "reserved", "moved",   "rejected", "cancelled", "device"};

// The kinds as literals, so that an entry's string_view never dangles.
std::string_view KindOf(std::string_view text) {
  const auto* at = std::find(std::begin(kKinds), std::end(kKinds), text);
  return at == std::end(kKinds) ? std::string_view() : *at;
}

void AppendText(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", u);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string EventLine(const LogEntry& e) {
  std::string out;
  out.reserve(160);
  fmt::format_to(std::back_inserter(out),
                 "{{\"t_ns\":{},\"seq\":{},\"kind\":\"{}\",\"job\":", e.time.value(), e.seq,
                 e.kind);
  AppendText(out, e.job);
  out += ",\"device\":";
  AppendText(out, e.device);
  fmt::format_to(std::back_inserter(out), ",\"share_milli\":{},\"why\":", e.share.value());
  AppendText(out, e.why);
  fmt::format_to(std::back_inserter(out), ",\"predicted_ns\":{}}}", e.predicted.value());
  return out;
}

Result<std::vector<LoggedEvent>> ParseEventLog(const std::string& name, std::string_view text) {
  std::vector<LoggedEvent> events;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    const auto json = nlohmann::json::parse(one, nullptr, false);
    if (!json.is_object()) {
      return Invalid(fmt::format("{}:{}: not a JSON object", name, line));
    }
    LoggedEvent e;
    const auto integer = [&json](const char* key) {
      const auto at = json.find(key);
      return at != json.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
    };
    const auto string = [&json](const char* key) {
      const auto at = json.find(key);
      return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    e.kind = string("kind");
    if (KindOf(e.kind).empty()) {
      return Invalid(fmt::format("{}:{}: unknown kind '{}'", name, line, e.kind));
    }
    e.time = Nanos(integer("t_ns"));
    e.seq = static_cast<uint64_t>(integer("seq"));
    e.job = string("job");
    e.device = string("device");
    e.why = string("why");
    e.share = MilliShare(integer("share_milli"));
    e.predicted = Nanos(integer("predicted_ns"));
    events.push_back(std::move(e));
  }
  return events;
}

Status TextJournal::Append(const LogEntry& entry) {
  text_ += EventLine(entry);
  text_ += '\n';
  return {};
}

Status MemoryJournal::Append(const LogEntry& entry) {
  entries_.push_back(entry);
  entries_.back().kind = KindOf(entry.kind);
  return {};
}

std::unordered_map<std::string, JobProgress> ProgressOf(const std::vector<LogEntry>& entries) {
  std::unordered_map<std::string, JobProgress> progress;
  for (const auto& e : entries) {
    if (e.job.empty()) continue;
    auto& job = progress[e.job];
    job.inputs_done = std::max(job.inputs_done, e.inputs);
    const bool failed = e.kind == "failed" && e.why.starts_with("for good: ");
    if ((e.kind == "finished" && e.why != "part") || e.kind == "rejected" ||
        e.kind == "cancelled" || failed) {
      job.over = true;
    }
  }
  return progress;
}

}  // namespace hase::execution

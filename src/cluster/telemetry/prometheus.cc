#include "cluster/telemetry/prometheus.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace hase::cluster::telemetry {
namespace {

class LineParser {
 public:
  explicit LineParser(std::string_view line) : rest_(line) {}

  // nullptr, or what is wrong.
  const char* Parse(PrometheusSample& sample) {
    sample.metric = Word();
    if (sample.metric.empty()) return "a metric's name is missing";
    if (Take('{')) {
      if (const char* wrong = Labels(sample)) return wrong;
    }
    Blanks();
    const std::string_view value = Token();
    if (!Number(value, sample.value)) return "the value is not a number";
    Blanks();
    const std::string_view stamp = Token();
    if (!stamp.empty()) {
      int64_t ms = 0;
      const auto [end, code] = std::from_chars(stamp.data(), stamp.data() + stamp.size(), ms);
      if (code != std::errc() || end != stamp.data() + stamp.size()) {
        return "the timestamp is not a whole number";
      }
      sample.timestamp_s = static_cast<double>(ms) / 1000;
    }
    Blanks();
    return rest_.empty() ? nullptr : "something follows the timestamp";
  }

 private:
  static bool WordChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
  }
  std::string Word() {
    size_t n = 0;
    while (n < rest_.size() && WordChar(rest_[n])) ++n;
    std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return word;
  }
  std::string_view Token() {
    const size_t n = std::min(rest_.find_first_of(" \t"), rest_.size());
    const auto token = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return token;
  }
  void Blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  const char* Labels(PrometheusSample& sample) {
    for (;;) {
      Blanks();
      if (Take('}')) return nullptr;
      std::string name = Word(), value;
      Blanks();
      if (name.empty() || !Take('=')) return "a label needs name=\"value\"";
      Blanks();
      if (!Take('"') || !Quoted(value)) return "a label's value is not closed";
      sample.labels.emplace_back(std::move(name), std::move(value));
      Blanks();
      if (!Take(',') && (rest_.empty() || rest_[0] != '}')) return "labels are not separated";
    }
  }
  bool Quoted(std::string& value) {
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (rest_.empty()) return false;
      value += rest_[0] == 'n' ? '\n' : rest_[0];
      rest_.remove_prefix(1);
    }
    return false;
  }
  static bool Number(std::string_view text, double& value) {
    if (text.starts_with('+')) text.remove_prefix(1);
    if (text == "NaN") {
      value = std::numeric_limits<double>::quiet_NaN();
      return true;
    }
    if (text == "Inf" || text == "-Inf") {
      value = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
      return true;
    }
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return code == std::errc() && end == text.data() + text.size();
  }

  std::string_view rest_;
};

}  // namespace

std::string_view PrometheusSample::Label(std::string_view name) const {
  for (const auto& [key, text] : labels) {
    if (key == name) return text;
  }
  return {};
}

Result<PrometheusPage> ParsePrometheus(const std::string& name, std::string_view text) {
  PrometheusPage page;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    ++page.lines;
    if (end == std::string_view::npos) {
      page.cut_short = true;
      break;
    }
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
    if (line.empty() || line[0] == '#') continue;
    PrometheusSample sample;
    if (const char* wrong = LineParser(line).Parse(sample)) {
      return Invalid(fmt::format("{}:{}: {}", name, page.lines, wrong));
    }
    sample.line = page.lines;
    page.samples.push_back(std::move(sample));
  }
  return page;
}

}  // namespace hase::cluster::telemetry

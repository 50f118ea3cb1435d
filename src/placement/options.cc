#include "placement/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace hase::placement {

OptionText::OptionText(std::string_view policy, std::string_view text) : policy_(policy) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    const std::string value(equals == std::string_view::npos ? "on" : item.substr(equals + 1));
    if (key.empty()) Fail(fmt::format("empty option in '{}'", item));
    if (!values_.emplace(key, value).second) Fail(fmt::format("option '{}' is given twice", key));
  }
}

const std::string* OptionText::Take(std::string_view key) {
  known_.emplace_back(key);
  const auto it = values_.find(key);
  if (it == values_.end()) return nullptr;
  taken_.emplace_back(key);
  return &it->second;
}

void OptionText::Fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

void OptionText::Number(std::string_view key, double lo, double hi, double& out) {
  const std::string* text = Take(key);
  if (!text) return;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !(value >= lo && value <= hi)) {
    return Fail(fmt::format("{}={} is not a number from {} to {}", key, *text, lo, hi));
  }
  out = value;
}

void OptionText::Integer(std::string_view key, int64_t lo, int64_t hi, int64_t& out) {
  const std::string* text = Take(key);
  if (!text) return;
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text->c_str(), &end, 10);
  if (text->empty() || *end != '\0' || errno != 0 || value < lo || value > hi) {
    return Fail(fmt::format("{}={} is not an integer from {} to {}", key, *text, lo, hi));
  }
  out = value;
}

void OptionText::Flag(std::string_view key, bool& out) {
  int choice = out ? 1 : 0;
  Word(key, {"off", "on"}, choice);
  out = choice == 1;
}

void OptionText::Word(std::string_view key, const std::vector<std::string_view>& words, int& out) {
  const std::string* text = Take(key);
  if (!text) return;
  const auto it = std::find(words.begin(), words.end(), *text);
  if (it == words.end()) {
    return Fail(fmt::format("{}={} is not one of {}", key, *text, fmt::join(words, "|")));
  }
  out = static_cast<int>(it - words.begin());
}

Status OptionText::Finish() const {
  if (!error_.empty()) return Usage(fmt::format("policy '{}': {}", policy_, error_));
  for (const auto& [key, value] : values_) {
    if (std::find(taken_.begin(), taken_.end(), key) != taken_.end()) continue;
    return Usage(fmt::format("policy '{}' has no option '{}' (it has: {})", policy_, key,
                             known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
  }
  return {};
}

}  // namespace hase::placement

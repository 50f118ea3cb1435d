#include "base/yaml.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/file.h"

namespace hase {

struct Yaml::Node {
  std::shared_ptr<const std::string> name;
  YAML::Node node;
};

Yaml::Yaml(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

Result<Yaml> Yaml::Parse(std::string name, const std::string& text) {
  // yaml-cpp throws, and recurses once per level of nesting: bound the depth of flow and block
  // nesting before it sees the text.
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > 200) return Invalid(fmt::format("{}: nested more than 200 deep", name));
    if (c == '\0') return Invalid(fmt::format("{}: a NUL byte", name));
  }
  size_t indent = 0, dashes = 0;
  bool leading = true;
  for (const char c : text) {
    if (c == '\n') {
      indent = dashes = 0;
      leading = true;
    } else if (leading && (c == ' ' || c == '-' || c == '?')) {
      ++indent;
      dashes += c != ' ';
      if (indent > 2000 || dashes > 200) return Invalid(fmt::format("{}: nested too deep", name));
    } else {
      leading = false;
    }
  }
  try {
    auto node = std::make_shared<Node>();
    node->node = YAML::Load(text);
    node->name = std::make_shared<const std::string>(name);
    return Yaml(std::move(node));
  } catch (const YAML::Exception& e) {
    return Invalid(fmt::format("{}:{}:{}: {}", name, e.mark.line + 1, e.mark.column + 1, e.msg));
  }
}

Result<Yaml> Yaml::Load(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{64} << 20));
  return Parse(path, text);
}

bool Yaml::IsMap() const { return node_->node.IsMap(); }
bool Yaml::IsList() const { return node_->node.IsSequence(); }
bool Yaml::IsNull() const { return !node_->node.IsDefined() || node_->node.IsNull(); }
bool Yaml::IsScalar() const { return node_->node.IsScalar(); }

std::string Yaml::Where() const {
  const auto mark = node_->node.Mark();
  if (mark.is_null()) return *node_->name + ":1:1";  // an empty file has no place
  return fmt::format("{}:{}:{}", *node_->name, mark.line + 1, mark.column + 1);
}

Status Yaml::CheckKeys(const std::vector<std::string_view>& known) const {
  if (!IsMap()) return Invalid(fmt::format("{}: expected a map with keys", Where()));
  std::set<std::string> seen;
  for (const auto& entry : node_->node) {
    const auto mark = entry.first.Mark();
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const auto where = fmt::format("{}:{}:{}", *node_->name, mark.line + 1, mark.column + 1);
    if (!key.starts_with("x_") && std::find(known.begin(), known.end(), key) == known.end()) {
      return Invalid(fmt::format("{}: unknown key '{}'", where, key));
    }
    if (!seen.insert(key).second) return Invalid(fmt::format("{}: key '{}' twice", where, key));
  }
  return {};
}

std::optional<Yaml> Yaml::Find(std::string_view key) const {
  if (!IsMap()) return std::nullopt;
  for (const auto& entry : node_->node) {
    if (entry.first.IsScalar() && entry.first.Scalar() == key) {
      if (entry.second.IsNull()) return std::nullopt;
      auto node = std::make_shared<Node>();
      node->node = entry.second;
      node->name = node_->name;
      return Yaml(std::move(node));
    }
  }
  return std::nullopt;
}

Result<Yaml> Yaml::Get(std::string_view key) const {
  if (!IsMap()) return Invalid(fmt::format("{}: expected a map with key '{}'", Where(), key));
  auto found = Find(key);
  if (!found) return Invalid(fmt::format("{}: key '{}' is missing", Where(), key));
  return *found;
}

std::vector<std::string> Yaml::Keys() const {
  std::vector<std::string> keys;
  if (!IsMap()) return keys;
  for (const auto& entry : node_->node) {
    keys.push_back(entry.first.IsScalar() ? entry.first.Scalar() : "?");
  }
  return keys;
}

Result<std::vector<Yaml>> Yaml::Items() const {
  if (!IsList()) return Invalid(fmt::format("{}: expected a list", Where()));
  std::vector<Yaml> items;
  for (const auto& item : node_->node) {
    auto node = std::make_shared<Node>();
    node->node = static_cast<const YAML::Node&>(item);
    node->name = node_->name;
    items.push_back(Yaml(std::move(node)));
  }
  return items;
}

Result<std::string> Yaml::Text() const {
  if (!IsScalar()) return Invalid(fmt::format("{}: expected a text", Where()));
  return node_->node.Scalar();
}

Result<double> Yaml::Number() const {
  HASE_ASSIGN_OR_RETURN(const std::string text, Text());
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Invalid(fmt::format("{}: '{}' is not a finite number", Where(), text));
  }
  return value;
}

Result<int64_t> Yaml::Integer() const {
  HASE_ASSIGN_OR_RETURN(const std::string text, Text());
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Invalid(fmt::format("{}: '{}' is not a whole number", Where(), text));
  }
  return value;
}

Result<bool> Yaml::Boolean() const {
  HASE_ASSIGN_OR_RETURN(const std::string text, Text());
  if (text == "true") return true;
  if (text == "false") return false;
  return Invalid(fmt::format("{}: '{}' is neither true nor false", Where(), text));
}

Result<std::string> Yaml::Text(std::string_view key) const {
  HASE_ASSIGN_OR_RETURN(const Yaml value, Get(key));
  return value.Text();
}
Result<double> Yaml::Number(std::string_view key) const {
  HASE_ASSIGN_OR_RETURN(const Yaml value, Get(key));
  return value.Number();
}
Result<int64_t> Yaml::Integer(std::string_view key) const {
  HASE_ASSIGN_OR_RETURN(const Yaml value, Get(key));
  return value.Integer();
}
Result<std::string> Yaml::TextOr(std::string_view key, std::string fallback) const {
  const auto value = Find(key);
  return value ? value->Text() : Result<std::string>(std::move(fallback));
}
Result<double> Yaml::NumberOr(std::string_view key, double fallback) const {
  const auto value = Find(key);
  return value ? value->Number() : Result<double>(fallback);
}
Result<int64_t> Yaml::IntegerOr(std::string_view key, int64_t fallback) const {
  const auto value = Find(key);
  return value ? value->Integer() : Result<int64_t>(fallback);
}
Result<bool> Yaml::BooleanOr(std::string_view key, bool fallback) const {
  const auto value = Find(key);
  return value ? value->Boolean() : Result<bool>(fallback);
}

}  // namespace hase

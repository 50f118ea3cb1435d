#include "apps/model_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/file.h"
#include "base/yaml.h"

namespace hase::apps {
namespace {

Result<std::string> PlaceInCsv(const std::string& path, const std::string& text,
                               const std::string& model) {
  HASE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(path, text, {}, {"model"}));
  for (size_t row = 0; row < table.rows(); ++row) {
    if (table.Text(row, "model") == model) return table.Where(row, "model");
  }
  return path;
}

std::string PlaceInJsonLines(const std::string& path, std::string_view text,
                             const std::string& model) {
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto json = nlohmann::json::parse(text.substr(0, end), nullptr, false);
    if (json.is_object() && json.contains("model") && json["model"] == model) {
      return fmt::format("{}:{} (model)", path, line);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return path;
}

Result<std::string> PlaceInYaml(const std::string& path, const std::string& text,
                                const std::string& model) {
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Parse(path, text));
  HASE_ASSIGN_OR_RETURN(const Yaml list, root.Get("services"));
  HASE_ASSIGN_OR_RETURN(const auto items, list.Items());
  for (const auto& item : items) {
    HASE_ASSIGN_OR_RETURN(const Yaml node, item.Get("model"));
    if (node.Text() == model) return node.Where() + " (model)";
  }
  return path;
}

Result<std::string> Place(const std::string& path, const std::string& model) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  if (path.ends_with(".jsonl") || path.ends_with(".json")) {
    return PlaceInJsonLines(path, text, model);
  }
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return PlaceInYaml(path, text, model);
  return PlaceInCsv(path, text, model);
}

}  // namespace

Error AtModel(const std::string& path, const std::string& model, Error error) {
  error.message = Place(path, model).value_or(path) + ": " + error.message;
  return error;
}

}  // namespace hase::apps

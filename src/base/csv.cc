#include "base/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace hase {
namespace {

// Splits one record starting at `pos`; moves `pos` past its line end and counts lines.
Result<std::vector<std::string>> NextRecord(const std::string& name, std::string_view text,
                                            size_t& pos, size_t& line) {
  std::vector<std::string> fields(1);
  const size_t first_line = line;
  bool quoted = false, was_quoted = false;
  for (; pos < text.size(); ++pos) {
    const char c = text[pos];
    if (quoted) {
      if (c == '"' && pos + 1 < text.size() && text[pos + 1] == '"') {
        fields.back() += '"';
        ++pos;
      } else if (c == '"') {
        quoted = false;
      } else {
        if (c == '\n') ++line;
        fields.back() += c;
      }
    } else if (c == '"') {
      if (!fields.back().empty() || was_quoted) {
        return Invalid(fmt::format("{}:{}:{}: quote inside a field", name, line, fields.size()));
      }
      quoted = was_quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
      was_quoted = false;
    } else if (c == '\n') {
      ++pos;
      ++line;
      if (!was_quoted && !fields.back().empty() && fields.back().back() == '\r') {
        fields.back().pop_back();
      }
      return fields;
    } else if (was_quoted && c != '\r') {
      return Invalid(
          fmt::format("{}:{}:{}: text after a closing quote", name, line, fields.size()));
    } else if (c == '\0') {
      return Invalid(fmt::format("{}:{}:{}: a NUL byte", name, line, fields.size()));
    } else {
      fields.back() += c;
    }
  }
  if (quoted) {
    return Invalid(fmt::format("{}:{}:{}: quote never closed", name, first_line, fields.size()));
  }
  ++line;
  return fields;
}

}  // namespace

Result<CsvTable> CsvTable::Parse(std::string name, std::string_view text,
                                 std::vector<std::string_view> known,
                                 std::vector<std::string_view> required) {
  CsvTable table;
  table.name_ = std::move(name);
  size_t pos = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  size_t line = 1;
  if (pos >= text.size())
    return Invalid(fmt::format("{}:1: empty file, no header line", table.name_));
  HASE_ASSIGN_OR_RETURN(table.header_, NextRecord(table.name_, text, pos, line));
  for (size_t i = 0; i < table.header_.size(); ++i) {
    const std::string& column = table.header_[i];
    const bool allowed = known.empty() || column.starts_with("x_") ||
                         std::find(known.begin(), known.end(), column) != known.end();
    if (!allowed) {
      return Invalid(fmt::format("{}:1:{}: unknown column '{}'", table.name_, i + 1, column));
    }
    if (!table.index_.emplace(column, i).second) {
      return Invalid(fmt::format("{}:1:{}: column '{}' twice", table.name_, i + 1, column));
    }
  }
  for (const auto column : required) {
    if (!table.has(column)) {
      return Invalid(fmt::format("{}:1: column '{}' is missing", table.name_, column));
    }
  }
  while (pos < text.size()) {
    const size_t at = line;
    HASE_ASSIGN_OR_RETURN(auto fields, NextRecord(table.name_, text, pos, line));
    if (fields.size() == 1 && fields[0].empty() && table.header_.size() > 1)
      continue;  // blank line
    if (fields.size() != table.header_.size()) {
      return Invalid(fmt::format("{}:{}: {} fields where the header has {}", table.name_, at,
                                 fields.size(), table.header_.size()));
    }
    table.rows_.push_back(std::move(fields));
    table.lines_.push_back(at);
  }
  return table;
}

bool CsvTable::has(std::string_view column) const { return index_.contains(std::string(column)); }

std::string_view CsvTable::Text(size_t row, std::string_view column) const {
  const auto it = index_.find(std::string(column));
  return it == index_.end() ? std::string_view() : std::string_view(rows_[row][it->second]);
}

Result<std::optional<double>> CsvTable::Number(size_t row, std::string_view column) const {
  const std::string_view text = Text(row, column);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Invalid(fmt::format("{}: '{}' is not a finite number", Where(row, column), text));
  }
  return value;
}

Result<std::optional<int64_t>> CsvTable::Integer(size_t row, std::string_view column) const {
  const std::string_view text = Text(row, column);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Invalid(fmt::format("{}: '{}' is not a whole number{}", Where(row, column), text,
                               code == std::errc::result_out_of_range ? " of 64 bits" : ""));
  }
  return value;
}

Result<double> CsvTable::RequiredNumber(size_t row, std::string_view column) const {
  HASE_ASSIGN_OR_RETURN(const auto value, Number(row, column));
  if (!value) return Invalid(fmt::format("{}: empty", Where(row, column)));
  return *value;
}
Result<int64_t> CsvTable::RequiredInteger(size_t row, std::string_view column) const {
  HASE_ASSIGN_OR_RETURN(const auto value, Integer(row, column));
  if (!value) return Invalid(fmt::format("{}: empty", Where(row, column)));
  return *value;
}

std::string CsvTable::Where(size_t row, std::string_view column) const {
  const auto it = index_.find(std::string(column));
  const size_t number = it == index_.end() ? 0 : it->second + 1;
  return fmt::format("{}:{}:{} ({})", name_, lines_[row], number, column);
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace hase

// CSV with places: header names checked against what the reader knows, every error with line and
// column. RFC 4180 quoting; LF or CRLF; a final line without newline is fine, a line with fewer
// fields than the header is not. Columns named x_… are allowed and ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace hase {

class CsvTable {
 public:
  // `known` lists all allowed columns, `required` those that must be there. An empty `known` allows
  // any column (foreign files).
  static Result<CsvTable> Parse(std::string name, std::string_view text,
                                std::vector<std::string_view> known,
                                std::vector<std::string_view> required);

  size_t rows() const { return rows_.size(); }
  bool has(std::string_view column) const;
  const std::vector<std::string>& columns() const { return header_; }

  // The text of a field; empty if the column is absent.
  std::string_view Text(size_t row, std::string_view column) const;
  // nullopt if empty or absent; an error naming file:line:column if not a finite number.
  Result<std::optional<double>> Number(size_t row, std::string_view column) const;
  Result<std::optional<int64_t>> Integer(size_t row, std::string_view column) const;
  // As above, but empty is an error too.
  Result<double> RequiredNumber(size_t row, std::string_view column) const;
  Result<int64_t> RequiredInteger(size_t row, std::string_view column) const;

  // "file.csv:12:3 (column)": where a field stands, for errors of meaning.
  std::string Where(size_t row, std::string_view column) const;

 private:
  std::string name_;
  std::vector<std::string> header_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> lines_;
};

// A field as CSV writes it: quoted only where it must be.
std::string CsvField(std::string_view text);

}  // namespace hase

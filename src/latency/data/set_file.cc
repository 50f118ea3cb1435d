#include <fmt/format.h>

#include <cmath>

#include "base/file.h"
#include "latency/data/readers.h"

namespace hase::latency {

Result<std::optional<SetFile>> SetFile::Open(const std::filesystem::path& folder,
                                             std::string_view file, std::string_view data_set,
                                             const Exclusions& exclusions, const RowSink& sink,
                                             ReadReport& report) {
  const auto path = folder / file;
  const auto packed = folder / (std::string(file) + ".xz");
  if (!std::filesystem::exists(path) && !std::filesystem::exists(packed)) return std::nullopt;
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(auto table, CsvTable::Parse(path.string(), text, {}, {}));
  report.files.push_back(path.string());
  return SetFile(std::move(table), data_set, exclusions, sink, report);
}

int64_t SetFile::Integer(size_t row, std::string_view column) {
  // Some sets write whole numbers as 8192.0.
  const auto value = table_.RequiredNumber(row, column);
  if (value && *value == std::floor(*value) && std::abs(*value) < 9e15) {
    return static_cast<int64_t>(*value);
  }
  if (!bad_) {
    bad_ = value ? Error{ErrorKind::kInvalid, table_.Where(row, column) + ": not a whole number"}
                 : value.error();
  }
  return 1;
}

double SetFile::Number(size_t row, std::string_view column) {
  const auto value = table_.RequiredNumber(row, column);
  if (value) return *value;
  if (!bad_) bad_ = value.error();
  return 1;
}

Result<model::Precision> SetFile::PrecisionOf(size_t row, std::string_view column) const {
  std::string text(table_.Text(row, column));
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // fp16_mixed: tensor cores; fp16_pseudo: stored in 16 bits, computed in 32.
  if (text.starts_with("fp16")) text = "fp16";
  if (text == "bfloat16") text = "bf16";
  auto precision = model::ParsePrecision(text);
  if (!precision) {
    return Invalid(fmt::format("{}: {}", table_.Where(row, column), precision.error().message));
  }
  return precision;
}

bool SetFile::Drop(std::string_view condition) {
  const auto reason = exclusions_->Reason(data_set_, condition);
  if (reason.empty()) return false;
  ++report_->dropped[fmt::format("{}: {}", data_set_, reason)];
  return true;
}

Status SetFile::Emit(size_t row, model::Kernel kernel, std::string_view device,
                     Convention convention, model::Runtime runtime, double latency_us,
                     int64_t repeats, double session_place) {
  if (bad_) return std::unexpected(*bad_);
  if (!(latency_us > 0)) {
    if (Drop("time_not_positive")) return {};
    return Invalid(fmt::format("{}: the time must be positive", table_.Where(row, "")));
  }
  Row out;
  out.sample.batch = kernel.output.empty() ? 1 : kernel.output[0];
  out.sample.kernel = std::move(kernel);
  out.sample.device = device;
  out.sample.runtime = runtime;
  out.sample.source = data_set_;
  out.sample.latency_us = latency_us;
  out.sample.repeats = repeats;
  out.convention = convention;
  out.session_place = session_place;
  ++report_->rows;
  (*sink_)(std::move(out));
  return {};
}

}  // namespace hase::latency

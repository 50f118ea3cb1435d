// perf_analyzer's CSV: Concurrency (or Request Rate), Inferences/Second, Client Send,
// Network+Server Send/Recv, Server Queue, Server Compute Input, Server Compute Infer, Server
// Compute Output, Client Recv, p50 latency …; averages in microseconds. Older releases have one
// column Server Compute.
#include <fmt/format.h>

#include "base/csv.h"
#include "latency/imports/imports.h"

namespace hase::latency {
namespace {

constexpr std::string_view kParts[] = {"Server Compute Input", "Server Compute Infer",
                                       "Server Compute Output"};

Result<double> ComputeUs(const CsvTable& table, size_t row) {
  if (table.has("Server Compute")) return table.RequiredNumber(row, "Server Compute");
  double sum = 0;
  for (const auto part : kParts) {
    HASE_ASSIGN_OR_RETURN(const double us, table.RequiredNumber(row, part));
    sum += us;
  }
  return sum;
}

}  // namespace

Result<Imported> ImportPerfAnalyzer(const std::string& file, std::string_view text,
                                    const ImportLabel& label) {
  HASE_ASSIGN_OR_RETURN(const CsvTable table,
                        CsvTable::Parse(file, text, {}, {"Inferences/Second"}));
  if (!table.has("Server Compute") && !table.has("Server Compute Infer")) {
    return Invalid(fmt::format(
        "{}: no column 'Server Compute Infer': the server's own times are what is imported", file));
  }
  if (!table.has("Concurrency")) {
    return Invalid(
        fmt::format("{}: no column 'Concurrency': at a request rate, requests overlap", file));
  }
  Imported out;
  int overlapping = 0;
  for (size_t row = 0; row < table.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const int64_t concurrency, table.RequiredInteger(row, "Concurrency"));
    if (concurrency != 1) {
      ++overlapping;
      continue;
    }
    HASE_ASSIGN_OR_RETURN(const double us, ComputeUs(table, row));
    if (!(us > 0)) {
      return Invalid(table.Where(row, "Server Compute Infer") + ": must be above 0");
    }
    Sample s = WholeSampleOf(label, "perf_analyzer");
    s.latency_us = us;
    out.samples.push_back(std::move(s));
  }
  if (overlapping > 0) {
    out.notes.push_back(fmt::format(
        "{}: {} rows of concurrency above 1 left out: their requests overlap", file, overlapping));
  }
  if (out.samples.empty()) {
    return Invalid(fmt::format("{}: no row of concurrency 1", file));
  }
  return out;
}

}  // namespace hase::latency

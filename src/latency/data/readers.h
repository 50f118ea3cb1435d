// The readers behind rows.h, one per data set, and what they share. Columns, units and caveats of
// each set stand in its PROVENANCE.md.
#pragma once

#include <optional>

#include "base/csv.h"
#include "latency/data/rows.h"

namespace hase::latency {

using SetReader = Status(const std::filesystem::path& folder, const Exclusions& exclusions,
                         const RowSink& sink, ReadReport& report);
SetReader ReadNeuSight, ReadAlibaba, ReadAiConfigurator, ReadDeepBench, ReadVidur, ReadCdecatapult,
    ReadMiopen;

// One file of a set: its table, and the rows that leave it.
class SetFile {
 public:
  // nullopt if the folder has neither `file` nor `file`.xz.
  static Result<std::optional<SetFile>> Open(const std::filesystem::path& folder,
                                             std::string_view file, std::string_view data_set,
                                             const Exclusions& exclusions, const RowSink& sink,
                                             ReadReport& report);
  size_t rows() const { return table_.rows(); }
  std::string_view Text(size_t row, std::string_view column) const {
    return table_.Text(row, column);
  }
  // Numbers of this row; the first bad field is kept and reported by Emit.
  int64_t Integer(size_t row, std::string_view column);
  double Number(size_t row, std::string_view column);
  Result<model::Precision> PrecisionOf(size_t row, std::string_view column) const;

  // True, and counted, if the set's exclusions name the condition.
  bool Drop(std::string_view condition);
  // Hands the kernel on, unless its time is not positive (an excluded condition, else an error).
  Status Emit(size_t row, model::Kernel kernel, std::string_view device, Convention convention,
              model::Runtime runtime, double latency_us, int64_t repeats = 1,
              double session_place = 0);

 private:
  SetFile(CsvTable table, std::string_view data_set, const Exclusions& exclusions,
          const RowSink& sink, ReadReport& report)
      : table_(std::move(table)),
        data_set_(data_set),
        exclusions_(&exclusions),
        sink_(&sink),
        report_(&report) {}

  CsvTable table_;
  std::string data_set_;
  const Exclusions* exclusions_;
  const RowSink* sink_;
  ReadReport* report_;
  std::optional<Error> bad_;
};

}  // namespace hase::latency

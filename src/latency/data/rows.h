// Rows of the measured data sets, brought to one form and streamed to a sink.
//
// A set is known by its folder's name at any depth below the paths given (docs/formats.md). Nothing
// is kept here: a million rows pass through once. Rows are dropped only for a reason that
// data/exclusions.csv names; every drop is counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "latency/kernel_model.h"
#include "latency/sample.h"

namespace hase::latency {

// One measured kernel. sample.device is the data set's own name for the card.
struct Row {
  Sample sample;
  Convention convention = Convention::kPyTorchEvents;
  // How far its card's measuring session had come, 0 to 1 (KernelTarget::session_place).
  double session_place = 0;
};

struct ReadReport {
  int64_t rows = 0;                        // handed to the sink
  std::map<std::string, int64_t> dropped;  // "data set: reason" -> rows
  std::vector<std::string> files;          // what was read
};

using RowSink = std::function<void(Row&&)>;

// What exclusions.csv asks for: rows of `data_set` for which `condition` holds are dropped.
// Conditions are the names that the readers know; an unknown one is an error.
class Exclusions {
 public:
  static Result<Exclusions> Parse(std::string name, std::string_view text);
  static Result<Exclusions> Load();  // the shipped one
  // The reason, or empty if such rows stay.
  std::string_view Reason(std::string_view data_set, std::string_view condition) const;

 private:
  std::map<std::string, std::string, std::less<>> reasons_;  // "data set|condition"
};

// A reader of one folder. Files that are absent are skipped.
struct DataSet {
  std::string_view name;  // of the folder
  Status (*read)(const std::filesystem::path& folder, const Exclusions& exclusions,
                 const RowSink& sink, ReadReport& report);
};
std::span<const DataSet> KernelDataSets();

// Reads every known kernel data set below `paths`, in the order of KernelDataSets(). `only`: names
// of the sets wanted; empty = all. No known set below the paths is an error that lists the names.
Result<ReadReport> ReadKernelRows(std::span<const std::filesystem::path> paths,
                                  std::span<const std::string> only, const RowSink& sink);

// 32 bits that tell a row from others: data set, device, convention, precision, fusion, geometry
// with batch. Not the time: the same launch measured twice is one row.
uint32_t RowDigest(const Row& row);

}  // namespace hase::latency

#include "latency/data/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/csv.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "latency/data/readers.h"

namespace hase::latency {
namespace {

namespace fs = std::filesystem;

constexpr DataSet kDataSets[] = {
    {"neusight", ReadNeuSight},
    {"alibaba_lnas_v100", ReadAlibaba},
    {"aiconfigurator_gemm", ReadAiConfigurator},
    {"deepbench", ReadDeepBench},
    {"vidur_gemm", ReadVidur},
    {"cdecatapult", ReadCdecatapult},
    {"miopen_finddb", ReadMiopen},
};
constexpr std::string_view kConditions[] = {"not_a_gpu", "no_shape", "time_not_positive",
                                            "repeated_measurement", "not_forward"};

// Folders called `name` at or below the paths, sorted, each once.
std::vector<fs::path> FoldersNamed(std::span<const fs::path> paths, std::string_view name) {
  std::vector<fs::path> found;
  for (const auto& path : paths) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(path, error);
    if (whole.filename() == name && fs::is_directory(whole, error)) found.push_back(whole);
    for (auto it = fs::recursive_directory_iterator(
             whole, fs::directory_options::skip_permission_denied, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (it->path().filename() == name && it->is_directory(error)) found.push_back(it->path());
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

std::span<const DataSet> KernelDataSets() { return kDataSets; }

Result<Exclusions> Exclusions::Parse(std::string name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(const auto table,
                        CsvTable::Parse(std::move(name), text, {"data_set", "condition", "reason"},
                                        {"data_set", "condition", "reason"}));
  Exclusions out;
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto condition = table.Text(i, "condition");
    if (std::ranges::find(kConditions, condition) == std::end(kConditions)) {
      return Invalid(fmt::format("{}: unknown condition '{}' (known: {})",
                                 table.Where(i, "condition"), condition,
                                 fmt::join(kConditions, ", ")));
    }
    out.reasons_[fmt::format("{}|{}", table.Text(i, "data_set"), condition)] =
        table.Text(i, "reason");
  }
  return out;
}

Result<Exclusions> Exclusions::Load() {
  HASE_ASSIGN_OR_RETURN(const auto path, DataFile("exclusions.csv"));
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  return Parse(path.string(), text);
}

std::string_view Exclusions::Reason(std::string_view data_set, std::string_view condition) const {
  const auto it = reasons_.find(fmt::format("{}|{}", data_set, condition));
  return it == reasons_.end() ? std::string_view() : std::string_view(it->second);
}

Result<ReadReport> ReadKernelRows(std::span<const fs::path> paths,
                                  std::span<const std::string> only, const RowSink& sink) {
  std::vector<std::string_view> known;
  for (const auto& set : kDataSets) known.push_back(set.name);
  for (const auto& name : only) {
    if (std::ranges::find(known, name) == known.end()) {
      return Usage(fmt::format("unknown data set '{}' (known: {})", name, fmt::join(known, ", ")));
    }
  }
  HASE_ASSIGN_OR_RETURN(const auto exclusions, Exclusions::Load());
  ReadReport report;
  for (const auto& set : kDataSets) {
    if (!only.empty() && std::ranges::find(only, set.name) == only.end()) continue;
    for (const auto& folder : FoldersNamed(paths, set.name)) {
      HASE_RETURN_IF_ERROR(set.read(folder, exclusions, sink, report));
    }
  }
  if (report.files.empty()) {
    return Invalid(fmt::format("no known data set below {} (known: {})",
                               paths.empty() ? std::string("(no path given)") : paths[0].string(),
                               fmt::join(known, ", ")));
  }
  return report;
}

uint32_t RowDigest(const Row& row) {
  const auto& s = row.sample;
  const auto text = fmt::format("{}|{}|{}|{}", s.source, s.device, ToString(row.convention),
                                GeometryKey(s.kernel));
  const uint64_t hash = Fnv1a64(text);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

}  // namespace hase::latency

// SampleStore: samples.db, the measurements made on this machine (SQLite, write-ahead log). What
// `hase bench` and `hase profile` measure, what finished jobs report and what `hase import` brings
// ends here, and the predictor learns from it.
//
// Rows carry the machine they were measured on (a state folder may be shared between machines) and
// its clock then; queries see only this machine's rows. The schema is versioned by user_version and
// migrated on opening. Several processes may use one file; a writer waits up to five seconds.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "latency/sample.h"

namespace hase::latency {

// Empty or absent = any.
struct SampleQuery {
  std::string device = {}, model = {}, source = {};
  std::optional<bool> whole_model = {};
  std::optional<int64_t> batch = {};
};

class SampleStore {
 public:
  static constexpr int kVersion = 2;

  // Opens or creates. `machine` is the fingerprint rows are written with and filtered by. Errors
  // name the file: not a database, damaged, written by a newer HASE, disk full, not writable.
  static Result<SampleStore> Open(const std::filesystem::path& file, std::string machine);
  // Opens to read only: writes nothing, and the folder need not be writable. nullopt: no such file.
  // A file of an older version is taken over by Open, which writes.
  static Result<std::optional<SampleStore>> OpenToRead(const std::filesystem::path& file,
                                                       std::string machine);
  SampleStore(SampleStore&&) noexcept;
  SampleStore& operator=(SampleStore&&) noexcept;
  ~SampleStore();

  // All or none. `clock_mhz`: the device's clock while measuring, 0 = unknown.
  Status Append(std::span<const Sample> samples, int clock_mhz = 0);
  // In the order in which they were appended.
  Result<std::vector<Sample>> Query(const SampleQuery& query) const;
  Result<int64_t> Count(const SampleQuery& query) const;
  // Rows of this machine that the predictor passes over: their latency is no number above 0.
  Result<int64_t> CountUnusable() const;
  // Reads the whole file; an error names the first damage.
  Status Check() const;
  Status Remove(const SampleQuery& query);

  // The newest vector of a device; nullopt if it was never measured.
  Status PutBench(const std::string& device, const cluster::MicroBenchmarks& bench);
  Result<std::optional<cluster::MicroBenchmarks>> Bench(const std::string& device) const;

 private:
  struct Database;
  explicit SampleStore(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace hase::latency

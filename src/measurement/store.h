// Store: what a run of `hase` must not forget, in one SQLite file (hase.db) of the state folder.
//
// Every entry of the engine's journal is committed before the engine acts on it (WAL mode), so a
// process killed at any moment leaves a journal from which the next one goes on: accepted jobs are
// there, finished ones are known as finished. A loss of power may cost the last entries (the log is
// not synced at each of them): then work is repeated, nothing is lost.
// One process at a time: Open takes a lock beside the file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "execution/journal.h"

namespace hase::measurement {

struct StoredRun {
  int64_t id = 0;
  std::string policy;
  bool done = false;
  std::string result;  // what EndRun was given
};

class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::filesystem::path& folder);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Texts by name: the accepted jobs, the cluster, the command's flags.
  Status Remember(const std::string& name, const std::string& text);
  Result<std::optional<std::string>> Recall(const std::string& name);

  Result<int64_t> BeginRun(const std::string& policy);
  Status EndRun(int64_t run, const std::string& result);
  Result<std::vector<StoredRun>> Runs();  // in order of beginning
  Status ForgetRuns();                    // and their journals

  // Appends to `run`'s journal; must not outlive the store.
  std::unique_ptr<execution::Journal> JournalOf(int64_t run);
  Result<std::vector<execution::LogEntry>> Entries(int64_t run);

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hase::measurement

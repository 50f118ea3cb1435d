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
#include <utility>
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
  // A new queue in place of what was there: forgets the runs, remembers `facts` (name, text) and
  // begins a run for each policy. All or nothing: after an error the old queue is as it was.
  Status StartQueue(const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<std::string>& policies);

  // Appends to `run`'s journal; must not outlive the store.
  std::unique_ptr<execution::Journal> JournalOf(int64_t run);
  // An error names the first row that no run can have written.
  Result<std::vector<execution::LogEntry>> Entries(int64_t run);

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hase::measurement

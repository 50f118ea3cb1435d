// The event log: JSON Lines, integers and short texts only, keys in a fixed order, so that equal
// runs give equal bytes (docs/formats.md, "Event log"). Reading it back serves `hase explain` and
// resuming.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "execution/journal.h"

namespace hase::execution {

// One line, without the newline.
std::string EventLine(const LogEntry& entry);

// What is read back. `kind` is owned here.
struct LoggedEvent {
  Nanos time;
  uint64_t seq = 0;
  std::string kind, job, device, why;
  MilliShare share;
  Nanos predicted;
};
// Errors name the line.
Result<std::vector<LoggedEvent>> ParseEventLog(const std::string& name, std::string_view text);

// Keeps the log's text in memory; tests and simulations.
class TextJournal : public Journal {
 public:
  Status Append(const LogEntry& entry) override;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Where nobody wants a log.
class NullJournal : public Journal {
 public:
  Status Append(const LogEntry&) override { return {}; }
  bool wanted() const override { return false; }
};

// Keeps entries as they are (with `inputs`), for resuming in tests.
class MemoryJournal : public Journal {
 public:
  Status Append(const LogEntry& entry) override;
  const std::vector<LogEntry>& entries() const { return entries_; }

 private:
  std::vector<LogEntry> entries_;
};

// What a journal says of each job, by name: how many inputs are done, and whether it has ended.
struct JobProgress {
  int64_t inputs_done = 0;
  bool over = false;
};
std::unordered_map<std::string, JobProgress> ProgressOf(const std::vector<LogEntry>& entries);

}  // namespace hase::execution

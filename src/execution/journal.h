// Journal: the append-only record that makes kill −9 harmless. The engine writes an entry before it
// acts on it; measurement implements it on SQLite, tests in memory. Entries are the lines of the
// event log (docs/formats.md): integers and short texts only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace hase::execution {

struct LogEntry {
  Nanos time;
  uint64_t seq = 0;
  std::string_view
      kind;  // arrived|started|chunk|finished|failed|reserved|moved|rejected|cancelled|device
  std::string job, device;  // names, empty where none
  MilliShare share;
  std::string why;
  Nanos predicted;     // predicted finish (started, reserved) or duration
  int64_t inputs = 0;  // chunk: inputs done so far, for resuming; not part of the event log
};

class Journal {
 public:
  virtual ~Journal() = default;
  virtual Status Append(const LogEntry& entry) = 0;
  // False: entries are thrown away, so nobody need compose them.
  virtual bool wanted() const { return true; }
};

}  // namespace hase::execution

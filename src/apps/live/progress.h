// Progress on a terminal while jobs run: one line per device and one for the whole, redrawn in
// place as the journal grows. Quiet in a pipe. Costs a fraction of a millisecond per redraw and
// draws at most eight times a second, because it shares the processor with the work it shows.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/device.h"
#include "execution/journal.h"
#include "workload/job.h"

namespace hase::live {

class Progress {
 public:
  // Borrows both. `width`: columns to fill at most.
  Progress(std::string title, const cluster::Cluster& cluster, std::span<const workload::Job> jobs,
           size_t width = 80);
  void OnEntry(const execution::LogEntry& entry);
  // The last state, left standing.
  void Finish();

  // What would be drawn, without escape codes; one line each.
  std::vector<std::string> Lines(double seconds) const;

 private:
  struct Row {
    std::string device, quota, job;
    int64_t inputs = 0, done_before = 0, done = 0;
    int finished = 0;
  };
  void Draw(bool last);

  std::string title_;
  size_t width_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> row_of_device_;
  std::map<std::string, const workload::Job*> jobs_;
  std::map<std::string, int64_t> done_;  // inputs, by job
  int arrived_ = 0, ended_ = 0, failed_ = 0;
  bool terminal_, drawn_ = false;
  SystemClock clock_;
  Nanos last_;
};

// "██████▌   " of `part` in `cells` columns, in eighths.
std::string Bar(double part, size_t cells);

}  // namespace hase::live

// Worker: a process of its own for one model on one partition, seen from the process that started
// it. The process is our own binary again (`hase worker`), so nothing of the parent's memory,
// threads or files is in it; what a model can break is that process alone.
//
// A worker dies with the thread that spawned it (PR_SET_PDEATHSIG), so spawn from a thread that
// lives as long as the workers shall. Not thread-safe. The destructor kills and reaps.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "execution/worker/partition.h"
#include "execution/worker/protocol.h"

namespace hase::execution {

class Worker {
 public:
  // Starts the process inside `partition` (which must outlive it) and asks it to load.
  static Result<Worker> Spawn(const Partition& partition, LoadRequest load);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // readable: Receive will not block
  // To a worker that is gone: no error; Receive tells why it is.
  Status Send(const Request& request);

  // The next message, or nullopt if none comes within `timeout`. If the process is gone without a
  // word, or sent nonsense, or was silent past Deadline(): a Failure that says so, and the process
  // is reaped. After a Done or Failure do not call again.
  std::optional<Message> Receive(Nanos timeout);

  // When (on the monotonic clock) a silent worker counts as hung: while it loads and runs its first
  // batch a minute and another per quota, then ten times its longest batch, at least 30 s.
  Nanos Deadline() const;

  // The process is stopped, killed if need be after `grace`, and reaped. May be repeated.
  void End(Nanos grace = kNoTime);

 private:
  Worker(const Partition& partition, pid_t pid, int fd);
  Failure Post(std::string_view what);  // reaps; says how it ended

  const Partition* partition_ = nullptr;
  pid_t pid_ = -1;
  int fd_ = -1;
  Nanos heard_;        // when the last message came
  Nanos longest_gap_;  // between two messages while running
  bool running_ = false;
};

// What one worker did from load to end; what benchmarks and profiles are made of.
struct WorkerRun {
  Loaded loaded;
  std::vector<Chunk> chunks;
  std::vector<model::ort::NodeTime> nodes;  // where the profiler was on
  Bytes peak_run;
};
// Blocks until the worker has done all of `runs`, one after the other.
Result<WorkerRun> RunWorker(const Partition& partition, const LoadRequest& load,
                            std::vector<RunRequest> runs);

// The worker's own side: serves the socket `fd` until told to stop; gives the exit status.
// `started`: when the parent forked, on the monotonic clock.
int WorkerMain(int fd, Nanos started);

// CLOCK_MONOTONIC.
Nanos MonotonicNow();

}  // namespace hase::execution

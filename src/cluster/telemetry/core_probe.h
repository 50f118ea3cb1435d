// CoreProbe: how fast arithmetic and memory are on one core just now, felt rather than counted.
// Virtual machines mostly hide the hardware's counters of memory traffic; but what a job of ours
// would meet, a small piece of work of our own meets too: a neighbour that fills the memory
// controllers or the shared cache, a hyper-thread that takes half the core, a lower clock.
//
// Three pieces in turn, timed by the thread's own processor time, so that waiting for a core does
// not count: multiply-adds in registers; 128 KiB read in order; 150 reads that each need the one
// before. They wander through a buffer of 64 MiB so that they find nothing of their own in a cache.
//
// Cost, stated because it is not free: 48 rounds of about 60 us, spread over 0.1 s, so 3 ms of one
// core for each look, and 6 MiB drawn through the shared cache.
// A reading alone says nothing: compare it with one of the same machine at rest.
#pragma once

#include <memory>

#include "base/result.h"

namespace hase::cluster::telemetry {

struct ProbeReading {
  double compute_ns = 0;  // per step of 32 multiply-adds
  double stream_ns = 0;   // per KiB read in order
  double latency_ns = 0;  // per dependent read
};

class CoreProbe {
 public:
  CoreProbe();
  ~CoreProbe();
  // Blocks for about 0.1 s. Not thread-safe. Error where this process may not run on the core.
  Result<ProbeReading> Measure(int core);

 private:
  struct Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace hase::cluster::telemetry

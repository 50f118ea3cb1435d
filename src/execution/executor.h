// Executor: makes Starts happen. Asynchronous and free of local assumptions: Launch and Stop return
// at once, everything that follows comes back as Events; strangers may occupy devices, and after a
// restart Adopt() lists work that still runs. Add a backend: a folder in backends/ and its row in
// backends.cc; the contract test runs over every row.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "latency/estimator.h"
#include "placement/plan.h"

namespace hase::execution {

// A gang's Launch has several slots: its inputs are split evenly over them and they run in
// lockstep, so one chunk means chunk_inputs of the whole gang.
//
// One start of one job (or of a part of a cut job); unique in a run.
using RunId = Id<struct RunIdTag>;

struct Launch {
  RunId run;
  JobId job;
  ModelId model;
  std::vector<placement::Slot> slots;
  int64_t batch = 1;
  int64_t inputs = 0;
  int64_t chunk_inputs = 0;  // progress is reported, and work can stop, every so many inputs
  Bytes memory_limit;        // 0 = none
};

// ---- events ------------------------------------------------------------------------------------
struct JobArrived {
  JobId job;
};
struct RunLoaded {
  RunId run;
  Nanos load_time;
  Bytes peak_memory;
};  // the model is loaded and warm
struct ChunkDone {
  RunId run;
  int64_t inputs;
  Nanos busy;
};  // inputs of this chunk
struct RunFinished {
  RunId run;
  Bytes peak_memory;
};
struct RunFailed {
  RunId run;
  std::string why;
  bool out_of_memory = false;
};
struct DeviceChanged {
  DeviceId device;
  bool up = true;
};
struct ForeignSeen {
  DeviceId device;
  latency::ForeignLoad load;
};  // what strangers use of it now, by counters
struct JobCancelled {
  JobId job;
};
struct Timer {};
using Happening = std::variant<JobArrived, RunLoaded, ChunkDone, RunFinished, RunFailed,
                               DeviceChanged, ForeignSeen, JobCancelled, Timer>;
struct Event {
  Nanos time;
  uint64_t seq = 0;  // ties are broken by order of creation
  Happening what;
};

// Where events come from: the simulator's heap or the live queue. Blocks until the next event or
// until `until`; nullopt = nothing before then (or ever, where until is absent).
class EventSource {
 public:
  virtual ~EventSource() = default;
  // An event at `until` itself is returned. A simulated source moves the clock to the event, or to
  // `until` where there is none; a live source with `until` in the past never blocks.
  virtual std::optional<Event> Next(std::optional<Nanos> until) = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Status Start(const Launch& launch) = 0;
  virtual void Stop(RunId run) = 0;  // may be repeated; ends with RunFailed{"stopped"} if it ran
  virtual std::vector<Launch> Adopt() { return {}; }
};

}  // namespace hase::execution

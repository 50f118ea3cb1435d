// Outcome: what a run of the engine did, as plain facts. Metrics, reports and the command line's
// JSON are computed from it (measurement/metrics.h), never inside the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "execution/executor.h"
#include "placement/plan.h"

namespace hase::execution {

enum class Ending : uint8_t { kOpen, kFinished, kFailed, kRejected, kCancelled };
std::string_view ToString(Ending ending);

// The first reservation a job was given: "you start no later than `from`, with `probability`".
struct Promise {
  Nanos made_at, from;
  double probability = 0;
};

struct JobOutcome {
  Ending ending = Ending::kOpen;
  Nanos arrival;
  std::optional<Nanos> first_start, end;
  std::optional<Nanos> deadline;
  std::optional<Promise> promise;
  std::string why;  // of a failure or reject
  std::string nearest_feasible;
  int starts = 0;
  bool finished_before = false;  // in the run that this one resumes
};

// One Start, from hand-over to its end: a bar of the Gantt chart.
struct RunOutcome {
  JobId job;
  std::vector<placement::Slot> slots;
  int64_t batch = 1, inputs = 0, inputs_done = 0;
  Nanos started, ended;
  std::optional<Nanos> loaded;  // when the model was ready
  Nanos predicted_finish;       // median, as seen at the start
  // Predicted solo time of the work done, and the predicted solo time that the wall time it took
  // was worth (wall time over predicted slow-down): their ratio is the predictor's error after
  // load.
  double predicted_work_s = 0, observed_work_s = 0;
  double predicted_load_s = 0;
  Bytes predicted_memory, peak_memory;
  bool ok = false;          // ended by itself with all inputs done
  bool backfilled = false;  // started while an earlier job held a reservation
  std::string why;          // of a failure
};

struct Outcome {
  std::vector<JobOutcome> jobs;  // by JobId
  std::vector<RunOutcome> runs;  // by RunId
  std::vector<int64_t> decision_ns;
  int out_of_memory = 0;
  int overruns = 0;                  // runs that passed their predicted p99
  int promises_on_lost_devices = 0;  // reservations whose device went down
  int64_t events = 0;
  Nanos end;
  bool infeasible = false;  // at least one job was rejected: exit status 3
};

}  // namespace hase::execution

#include "apps/live/live_run.h"

#include <time.h>

#include "apps/live/watcher.h"
#include "base/clock.h"
#include "execution/backends/local/live_events.h"
#include "placement/policy.h"

namespace hase::live {
namespace {

double ProcessorSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Writes to the journal first, then shows.
class Shown : public execution::Journal {
 public:
  Shown(execution::Journal& journal, Progress* progress) : journal_(journal), progress_(progress) {}
  Status Append(const execution::LogEntry& entry) override {
    HASE_RETURN_IF_ERROR(journal_.Append(entry));
    if (progress_) progress_->OnEntry(entry);
    return {};
  }

 private:
  execution::Journal& journal_;
  Progress* progress_;
};

}  // namespace

Result<LiveResult> Run(LiveRun run) {
  const double before = ProcessorSeconds();
  HASE_ASSIGN_OR_RETURN(auto policy, placement::MakePolicy(run.policy));
  std::vector<workload::Job> jobs;
  for (const auto& input : run.jobs) jobs.push_back(input.job);
  const SystemClock clock(run.elapsed);
  execution::LiveEvents events(clock);
  HASE_ASSIGN_OR_RETURN(auto executor,
                        execution::LocalExecutor::Make(run.cluster, run.models, events, {}));
  measurement::ReportDecisions decisions(run.policy, jobs, run.cluster);
  Shown journal(run.journal, run.progress);
  execution::Engine engine({}, clock, events, *executor, *policy, run.estimator, run.cluster,
                           std::move(run.jobs), journal, &decisions);
  const Watcher watcher(run.cluster, events);
  LiveResult result;
  HASE_ASSIGN_OR_RETURN(result.outcome, engine.Run());
  result.records = executor->Records();
  result.decisions = decisions.decisions();
  result.enforcement = executor->Enforcement();
  result.engine_processor_s = ProcessorSeconds() - before;
  return result;
}

Status CheckDevices(const cluster::Cluster& cluster) {
  const SystemClock clock;
  execution::LiveEvents events(clock);
  HASE_RETURN_IF_ERROR(execution::LocalExecutor::Make(cluster, {}, events, {}));
  return {};
}

}  // namespace hase::live

// A live run: the engine on this machine, one policy, from the first arrival to the last end.
// `hase run` and `hase demo` are made of it.
#pragma once

#include <string>
#include <vector>

#include "apps/live/progress.h"
#include "base/result.h"
#include "cluster/device.h"
#include "execution/backends/local/local_executor.h"
#include "execution/engine.h"
#include "execution/journal.h"
#include "latency/estimator.h"
#include "measurement/report/report.h"

namespace hase::live {

struct LiveRun {
  const cluster::Cluster& cluster;
  std::vector<execution::JobInput> jobs;
  std::vector<execution::LocalModel> models;  // by ModelId
  const latency::Estimator& estimator;
  std::string policy;  // as on the command line
  execution::Journal& journal;
  Nanos elapsed = {};            // of the run that this one goes on with
  Progress* progress = nullptr;  // told of what happens
};

struct LiveResult {
  execution::Outcome outcome;
  std::vector<execution::LocalRecord> records;
  std::vector<measurement::ReportDecision> decisions;
  std::vector<std::string> enforcement;  // by DeviceId
  double engine_processor_s = 0;         // processor time that HASE itself took
};

Result<LiveResult> Run(LiveRun run);

// Whether every device of the cluster can be used on this machine; starts nothing.
Status CheckDevices(const cluster::Cluster& cluster);

}  // namespace hase::live

// LocalExecutor: this machine as a cluster. Devices are CPU partitions (cores × quota) and, where
// ONNX Runtime has the CUDA provider, this machine's GPUs; every running part of a job is a worker
// process of its own, fed in chunks. One thread starts, watches and reaps all workers; it sleeps
// in poll() between their messages.
//
// Each start ends exactly once, as RunFinished or RunFailed. A worker that dies, hangs or sends
// nonsense is a RunFailed; nothing a model does reaches the engine. Left out: warm workers (each
// run loads its model anew).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/device.h"
#include "execution/backends/local/live_events.h"
#include "execution/executor.h"
#include "execution/worker/partition.h"
#include "execution/worker/protocol.h"

namespace hase::execution {

struct LocalModel {
  std::string path;  // of the .onnx file
  std::vector<std::pair<std::string, int64_t>> dimensions = {};
};

struct LocalOptions {
  bool without_cgroups = false;
  Nanos stop_grace = Nanos(5'000'000'000);  // from Stop to SIGKILL
  // What a launch may use beyond its memory_limit, which is a prediction and good to some per cent;
  // control groups also count the pages of the model's file.
  double memory_slack = 0.25;
  Bytes memory_slack_least = MiB(64);
  int load_limit_s = 300;  // beyond this a model counts as hanging
};

// What a worker measured, for samples and reports; in order of ending.
struct LocalRecord {
  RunId run;
  DeviceId device;
  ModelId model;
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
  Loaded loaded;
  std::vector<Chunk> chunks;
  Bytes peak_run;
  int pid = 0;
};

class LocalExecutor : public Executor {
 public:
  // `models[id.index()]` is what a ModelId loads. `cluster` and `events` must outlive this. Fails
  // if a device is none of this machine's.
  static Result<std::unique_ptr<LocalExecutor>> Make(const cluster::Cluster& cluster,
                                                     std::vector<LocalModel> models,
                                                     LiveEvents& events, LocalOptions options);
  ~LocalExecutor() override;  // kills what still runs

  Status Start(const Launch& launch) override;
  void Stop(RunId run) override;

  // How each device is enforced, by DeviceId: "core 1, 60 % (cgroup-v1, 3.0 of each 5 ms)".
  std::vector<std::string> Enforcement() const;
  std::vector<Limiter> Limiters() const;
  // Measurements of the runs that ended so far.
  std::vector<LocalRecord> Records() const;

 private:
  class Pump;
  explicit LocalExecutor(std::unique_ptr<Pump> pump);
  std::unique_ptr<Pump> pump_;
};

}  // namespace hase::execution

// What most commands start from: the catalogue, this machine, and the cluster the user means.
#pragma once

#include <string>

#include "base/result.h"
#include "cluster/catalogue.h"
#include "cluster/detect.h"
#include "execution/worker/partition.h"
#include "latency/sample_store.h"

namespace hase::cli {

struct Machine {
  cluster::Catalogue catalogue;
  cluster::HostCpu cpu;
  cluster::Cluster cluster;
  std::string fingerprint;  // live::MachineName()
  std::string no_gpu;  // why there is no GPU; empty if there is one, or if a file describes all
};

// The cluster of `cluster_file`, or this machine's own if that is empty.
Result<Machine> OpenMachine(const std::string& cluster_file);
// samples.db in the state folder (--state).
Result<latency::SampleStore> OpenSamples(const std::string& state, const Machine& machine);
// Takes the newest measured micro-benchmarks of every type that has some.
Status TakeMeasuredBenches(Machine& machine, const latency::SampleStore& store);
// live::ReadMeasured of the state folder (--state).
Result<std::vector<latency::Sample>> ReadMeasured(const std::string& state, Machine& machine);

// A CPU device's partition on this machine. Usage error for a GPU or for cores that are not here.
Result<execution::Partition> PartitionOf(const cluster::Cluster& cluster,
                                         const cluster::Device& device);
// The device called `name`, or the first whose type is.
Result<DeviceId> FindDevice(const cluster::Cluster& cluster, const std::string& name);

// The clock of one core now, MHz; 0 if the kernel does not say.
int CoreClockMhz(int core);

// "a,b,c" → a b c; empty parts are dropped.
std::vector<std::string> SplitList(const std::string& text);

// One line that is rewritten in place on a terminal; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  void Show(const std::string& line);

 private:
  bool terminal_;
  size_t width_ = 0;
};

}  // namespace hase::cli

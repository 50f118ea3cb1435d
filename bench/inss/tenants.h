// Tenants: worker processes side by side on this machine's cores, each under a quota of its own —
// what the CPU surface and the live run of planned services are made of. Workers, control groups
// and messages are those of the local backend (execution/worker).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "execution/worker/partition.h"
#include "execution/worker/worker.h"

namespace hase::bench {

struct TenantSpec {
  std::string model;  // of the zoo, or an .onnx file
  int64_t batch = 1;
  double share = 1;  // of all cores' time
};

class Tenants {
 public:
  // Blocks until all have loaded and warmed up. Model files are kept below `state`. Fails where the
  // kernel cannot hold quotas (control groups): a worker that sleeps by itself is another thing.
  static Result<std::unique_ptr<Tenants>> Start(const std::vector<TenantSpec>& specs,
                                                const std::string& state);

  size_t size() const { return workers_.size(); }
  const execution::Loaded& loaded(size_t i) const { return loaded_[i]; }
  std::string Enforcement(size_t i) const { return parts_[i].Describe(); }
  // Asks tenant i for `batches` runs of its batch, told one by one.
  Status Run(size_t i, int64_t batches);

  struct Finished {
    size_t tenant = 0;
    double run_s = 0;  // of the batch, as the worker took it
  };
  // A batch that ended, or nullopt after `timeout_s`. Errors: a worker died.
  Result<std::optional<Finished>> Next(double timeout_s);

 private:
  explicit Tenants(execution::Partition all) : all_(std::move(all)) {}
  execution::Partition all_;
  std::vector<execution::Partition> parts_;
  std::vector<TenantSpec> specs_;
  std::vector<execution::Worker> workers_;
  std::vector<execution::Loaded> loaded_;
};

// "AMD EPYC; 2 cores; 32 MiB cache": what measured rows are filed under.
std::string Fingerprint();

}  // namespace hase::bench

// Accepted: what the store keeps of a queue's command, so that `hase run --resume` and `hase
// replay` need nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "measurement/store.h"

namespace hase::live {

struct Accepted {
  std::string cluster, cluster_name;  // text and path of the cluster file
  std::string jobs;                   // as jobs.csv
  std::string estimates;              // path; empty: the predictor
};

// From the command's files. Reads and checks the jobs.
Result<Accepted> AcceptFiles(const std::string& cluster, const std::string& jobs,
                             const std::string& estimates);
// Usage error if the store holds no queue.
Result<Accepted> Recall(measurement::Store& store);
// In place of the queue that the store held, with a run for each policy; all or nothing.
Status Keep(const Accepted& accepted, const std::vector<std::string>& policies,
            measurement::Store& store);

}  // namespace hase::live

// openb: the public trace of a production GPU cluster (Alibaba, cluster-trace-gpu-v2023), read as
// it is. Nodes become a cluster, tasks become jobs.
//
// The trace says how much of which card a task took and for how long, not what it ran. The seeded
// rule that maps it to inference jobs: a task with g = num_gpu · gpu_milli / 1000 cards' worth runs
// a zoo model drawn evenly by family; small shares (< 1/4) draw a batch of 1–4, larger ones up to
// 64; its inputs are those that take, on the reference speed, as many device seconds as the task
// lived (deletion − scheduled time), at most `longest_s`. num_gpu > 1 is a gang. cpu_milli and
// memory_mib are demanded of the node as they stand. Tasks without a GPU are skipped. As recorded
// the load is about 1 %: `compress` divides all times between arrivals.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/catalogue.h"
#include "cluster/device.h"
#include "workload/generator.h"
#include "workload/job.h"

namespace hase::workload {

struct OpenbOptions {
  double load = 0;          // > 0: arrivals are compressed to this load; 0: as recorded
  double longest_s = 3600;  // longer tasks are cut to this
  int64_t first = 0;        // only so many tasks; 0 = all
};

// v2023_gpu_nodes.csv: sn,cpu_milli,memory_mib,gpu,model. `disclosed` renames what the trace calls
// its undisclosed types (examples/openb_types.yaml: {G2: A10, …}); a type that is neither a
// catalogue device nor in the map is left out with its nodes.
Result<cluster::Cluster> ParseOpenbNodes(const std::string& name, std::string_view text,
                                         const std::map<std::string, std::string>& disclosed,
                                         const cluster::Catalogue& catalogue);

// v2023_pods_*.csv.
Result<std::vector<Job>> ParseOpenbTasks(const std::string& name, std::string_view text,
                                         const OpenbOptions& options, uint64_t seed,
                                         const cluster::Cluster& cluster, const SpeedTable& speed);

}  // namespace hase::workload

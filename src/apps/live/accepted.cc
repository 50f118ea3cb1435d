#include "apps/live/accepted.h"

#include <array>

#include "base/file.h"
#include "workload/reader.h"

namespace hase::live {

Result<Accepted> AcceptFiles(const std::string& cluster, const std::string& jobs,
                             const std::string& estimates) {
  HASE_ASSIGN_OR_RETURN(std::string text, ReadFile(cluster));
  HASE_ASSIGN_OR_RETURN(const auto list, workload::LoadJobs(jobs));
  return Accepted{.cluster = std::move(text),
                  .cluster_name = cluster,
                  .jobs = workload::WriteJobsCsv(list),
                  .estimates = estimates};
}

Result<Accepted> Recall(measurement::Store& store) {
  HASE_ASSIGN_OR_RETURN(const auto runs, store.Runs());
  Accepted accepted;
  for (const auto& [name, text] :
       std::array{std::pair("cluster", &accepted.cluster),
                  std::pair("cluster_name", &accepted.cluster_name),
                  std::pair("jobs", &accepted.jobs), std::pair("estimates", &accepted.estimates)}) {
    HASE_ASSIGN_OR_RETURN(auto known, store.Recall(name));
    if (!known || runs.empty()) return Usage("the state folder holds no queue (`hase run`)");
    *text = std::move(*known);
  }
  return accepted;
}

Status Keep(const Accepted& accepted, const std::vector<std::string>& policies,
            measurement::Store& store) {
  return store.StartQueue({{"cluster", accepted.cluster},
                           {"cluster_name", accepted.cluster_name},
                           {"jobs", accepted.jobs},
                           {"estimates", accepted.estimates}},
                          policies);
}

}  // namespace hase::live

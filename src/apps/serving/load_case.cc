#include "apps/serving/load_case.h"

#include <fmt/core.h>

#include <algorithm>

#include "apps/model_place.h"
#include "apps/predicting.h"
#include "base/paths.h"
#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "latency/runs_on.h"
#include "workload/reader.h"

namespace hase::serving {

Result<LoadedCase> MakeCase(cluster::Cluster cluster, std::vector<workload::Service> services,
                            std::vector<latency::Sample> samples,
                            const std::string& services_file) {
  LoadedCase loaded;
  loaded.given.cluster = std::move(cluster);
  loaded.given.services = std::move(services);
  HASE_ASSIGN_OR_RETURN(const auto folder, DataDir());
  loaded.library = std::make_unique<model::ModelLibrary>(folder);
  for (const auto& service : loaded.given.services) {
    const auto id = loaded.library->Intern({service.model, service.runtime, service.precision});
    if (!id && services_file.empty()) return std::unexpected(id.error());
    if (!id) return std::unexpected(apps::AtModel(services_file, service.model, id.error()));
    loaded.given.models.push_back(*id);
    const auto runs = [&](const auto& type) { return latency::RunsOn(type, *service.runtime); };
    if (service.runtime && std::ranges::none_of(loaded.given.cluster.types, runs)) {
      return Infeasible(fmt::format("service {}: runtime {} runs on no device of the cluster",
                                    service.name, model::ToString(*service.runtime)));
    }
  }
  HASE_ASSIGN_OR_RETURN(
      auto predicting,
      apps::Predicting::Make(loaded.library.get(), loaded.given.cluster.types, std::move(samples)));
  loaded.given.estimator = &predicting->predictor();
  loaded.notes = predicting->notes();
  loaded.predicting = std::shared_ptr<apps::Predicting>(std::move(predicting));
  return loaded;
}

Result<LoadedCase> LoadCase(const std::string& cluster_file, const std::string& services_file) {
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  const auto cpu = cluster::CpuSpec(cluster::DetectCpu());
  HASE_ASSIGN_OR_RETURN(auto cluster, cluster::LoadCluster(cluster_file, catalogue, cpu));
  HASE_ASSIGN_OR_RETURN(auto services, workload::LoadServices(services_file));
  return MakeCase(std::move(cluster), std::move(services), {}, services_file);
}

}  // namespace hase::serving

#include "apps/serving/load_case.h"

#include <fmt/core.h>

#include "apps/predicting.h"
#include "base/paths.h"
#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "workload/reader.h"

namespace hase::serving {

Result<LoadedCase> MakeCase(cluster::Cluster cluster, std::vector<workload::Service> services) {
  LoadedCase loaded;
  loaded.given.cluster = std::move(cluster);
  loaded.given.services = std::move(services);
  HASE_ASSIGN_OR_RETURN(const auto folder, DataDir());
  loaded.library = std::make_unique<model::ModelLibrary>(folder);
  for (const auto& service : loaded.given.services) {
    HASE_ASSIGN_OR_RETURN(const ModelId id, loaded.library->Intern({service.model, service.runtime,
                                                                    service.precision}));
    loaded.given.models.push_back(id);
  }
  HASE_ASSIGN_OR_RETURN(auto predicting, apps::Predicting::Make(loaded.library.get(),
                                                                loaded.given.cluster.types, {}));
  loaded.given.estimator = &predicting->predictor();
  loaded.note = predicting->note();
  loaded.predicting = std::shared_ptr<apps::Predicting>(std::move(predicting));
  return loaded;
}

Result<LoadedCase> LoadCase(const std::string& cluster_file, const std::string& services_file) {
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  const auto cpu = cluster::CpuSpec(cluster::DetectCpu());
  HASE_ASSIGN_OR_RETURN(auto cluster, cluster::LoadCluster(cluster_file, catalogue, cpu));
  HASE_ASSIGN_OR_RETURN(auto services, workload::LoadServices(services_file));
  return MakeCase(std::move(cluster), std::move(services));
}

}  // namespace hase::serving

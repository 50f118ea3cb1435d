// A ServingCase from files: cluster, services, and the predictor with everything it borrows.
#pragma once

#include <memory>
#include <string>

#include "apps/serving/arena.h"
#include "model/library.h"

namespace hase::serving {

struct LoadedCase {
  ServingCase given;
  std::unique_ptr<model::ModelLibrary> library;
  std::shared_ptr<void> predicting;  // owns the estimator; shared: its type stays in the .cc
  std::string note;                  // to be shown; empty if there is nothing to say
};

// The trained predictor over these types, and the services' models in the library's kernel lists.
Result<LoadedCase> MakeCase(cluster::Cluster cluster, std::vector<workload::Service> services);

// Errors name the file, line and column.
Result<LoadedCase> LoadCase(const std::string& cluster_file, const std::string& services_file);

}  // namespace hase::serving

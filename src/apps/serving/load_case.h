// A ServingCase from files: cluster, services, and the predictor with everything it borrows.
#pragma once

#include <memory>
#include <string>

#include "apps/serving/arena.h"
#include "latency/sample.h"
#include "model/library.h"

namespace hase::serving {

struct LoadedCase {
  ServingCase given;
  std::unique_ptr<model::ModelLibrary> library;
  std::shared_ptr<void> predicting;  // owns the estimator; shared: its type stays in the .cc
  std::vector<std::string> notes;    // to be shown
};

// The predictor over these types, which knows `samples`, and the services' models in the library's
// kernel lists. Errors name the place in the file that the services came from, if there is one.
// Infeasible if a service's runtime runs on no device.
Result<LoadedCase> MakeCase(cluster::Cluster cluster, std::vector<workload::Service> services,
                            std::vector<latency::Sample> samples = {},
                            const std::string& services_file = {});

// Errors name the file, line and column.
Result<LoadedCase> LoadCase(const std::string& cluster_file, const std::string& services_file);

}  // namespace hase::serving

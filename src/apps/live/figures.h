// The figures of live runs as JSON with the keys of docs/formats.md ("simulate and run"), and the
// points and notes that a report shows of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/live/live_run.h"
#include "measurement/metrics.h"
#include "measurement/prediction_error.h"

namespace hase::live {

// One entry of "policies". `gap` = closed gap, where round-robin and the bound are known.
nlohmann::json PolicyJson(const std::string& name, const measurement::Metrics& metrics,
                          std::optional<double> gap);

// Whether a job's (model, batch) had been measured before it was predicted.
using Profiled = std::function<bool(const workload::Job& job)>;

struct Errors {
  measurement::ErrorSummary work, work_unprofiled, load;
};
Errors ErrorsOf(std::span<const measurement::PredictionPoint> points,
                std::span<const execution::JobInput> jobs, const Profiled& profiled);
// {"prediction_mape", "prediction_median_ape", …_unprofiled, "load_median_ape", …}
void PutErrors(const Errors& errors, nlohmann::json& into);

void AddPoints(const std::string& policy, const execution::Outcome& outcome,
               std::span<const execution::JobInput> jobs, const cluster::Cluster& cluster,
               const Profiled& profiled, measurement::Report& report);
std::vector<measurement::ReportDevice> Devices(const cluster::Cluster& cluster,
                                               std::span<const std::string> enforcement);

}  // namespace hase::live

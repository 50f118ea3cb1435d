#include "apps/live/figures.h"

#include <nlohmann/json.hpp>

namespace hase::live {

using nlohmann::json;

json PolicyJson(const std::string& name, const measurement::Metrics& m, std::optional<double> gap) {
  return {{"name", name},
          {"makespan_s", m.makespan_s},
          {"closed_gap", gap ? json(*gap) : json(nullptr)},
          {"mean_completion_s", m.mean_completion_s},
          {"p99_wait_s", m.p99_wait_s},
          {"utilisation", m.utilisation},
          {"deadline_miss", m.deadline_miss},
          {"decision_us",
           {{"p50", m.decision_p50_us}, {"p99", m.decision_p99_us}, {"max", m.decision_max_us}}},
          {"oom", m.out_of_memory},
          {"promises",
           {{"made", m.promises_made},
            {"kept", m.promises_kept},
            {"promised_probability", m.promised_probability}}},
          {"jobs", m.jobs},
          {"finished", m.finished},
          {"failed", m.failed},
          {"rejected", m.rejected}};
}

Errors ErrorsOf(std::span<const measurement::PredictionPoint> points,
                std::span<const execution::JobInput> jobs, const Profiled& profiled) {
  std::vector<double> work, unprofiled, load;
  for (const auto& point : points) {
    if (point.load) {
      load.push_back(point.error());
      continue;
    }
    work.push_back(point.error());
    if (!profiled(jobs[point.job.index()].job)) unprofiled.push_back(point.error());
  }
  return {.work = measurement::Summarise(std::move(work)),
          .work_unprofiled = measurement::Summarise(std::move(unprofiled)),
          .load = measurement::Summarise(std::move(load))};
}

void PutErrors(const Errors& errors, json& into) {
  const auto put = [&](const std::string& name, const measurement::ErrorSummary& summary,
                       const std::string& suffix) {
    const bool any = summary.count > 0;
    into[name + "_mape" + suffix] = any ? json(summary.mean) : json(nullptr);
    into[name + "_median_ape" + suffix] = any ? json(summary.median) : json(nullptr);
  };
  put("prediction", errors.work, "");
  put("prediction", errors.work_unprofiled, "_unprofiled");
  put("load", errors.load, "");
}

void AddPoints(const std::string& policy, const execution::Outcome& outcome,
               std::span<const execution::JobInput> jobs, const cluster::Cluster& cluster,
               const Profiled& profiled, measurement::Report& report) {
  for (const auto& point : measurement::PredictionPoints(outcome)) {
    const workload::Job& job = jobs[point.job.index()].job;
    measurement::ReportPoint entry;
    entry.job = job.job_id;
    entry.model = job.model;
    entry.device = cluster.devices[point.device.index()].name;
    entry.policy = policy;
    entry.batch = job.batch;
    entry.load = point.load;
    entry.profiled = profiled(job);
    entry.predicted_s = point.predicted_s;
    entry.measured_s = point.measured_s;
    report.points.push_back(std::move(entry));
  }
}

std::vector<measurement::ReportDevice> Devices(const cluster::Cluster& cluster,
                                               std::span<const std::string> enforcement) {
  std::vector<measurement::ReportDevice> devices;
  for (const cluster::Device& device : cluster.devices) {
    const auto& type = cluster.types[device.type.index()];
    std::string text = type.name;
    if (device.id.index() < enforcement.size()) text += ": " + enforcement[device.id.index()];
    devices.push_back({.name = device.name, .description = text});
  }
  return devices;
}

}  // namespace hase::live

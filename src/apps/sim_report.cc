#include "apps/sim_report.h"

#include <fmt/core.h>

#include "base/file.h"

namespace hase::apps {
namespace {

std::vector<workload::Job> JobsOf(const execution::SimCase& sim) {
  std::vector<workload::Job> jobs;
  for (const auto& j : sim.jobs) jobs.push_back(j.job);
  return jobs;
}

}  // namespace

std::unique_ptr<measurement::ReportDecisions> SimReport::SinkFor(const std::string& policy,
                                                                 const execution::SimCase& sim) {
  if (!wanted_) return nullptr;
  jobs_ = JobsOf(sim);
  return std::make_unique<measurement::ReportDecisions>(policy, jobs_, sim.cluster);
}

void SimReport::BeginSeed() {
  report_.policies.clear();
  report_.decisions.clear();
}

void SimReport::SetGap(const std::string& policy, std::optional<double> closed_gap) {
  for (auto& p : report_.policies) {
    if (p.name == policy) p.closed_gap = closed_gap;
  }
}

void SimReport::Add(const std::string& policy, const execution::SimCase& sim,
                    const execution::Outcome& outcome,
                    std::unique_ptr<measurement::ReportDecisions> decisions) {
  if (!wanted_) return;
  if (report_.devices.empty()) {
    for (const auto& d : sim.cluster.devices) {
      report_.devices.push_back({d.name, sim.cluster.types[d.type.index()].name});
    }
  }
  report_.policies.push_back(measurement::PolicyOf(policy, outcome, jobs_, sim.cluster));
  if (!decisions) return;
  const auto& list = decisions->decisions();
  report_.decisions.insert(report_.decisions.end(), list.begin(), list.end());
}

Status SimReport::Write(const std::string& path, const std::string& world,
                        std::optional<double> lower_bound_s) const {
  measurement::Report report = report_;
  report.title = "HASE simulation";
  report.curves = true;
  report.subtitle = fmt::format("world {}", world);
  report.lower_bound_s = lower_bound_s;
  for (auto& p : report.policies) {
    report.cards.push_back({fmt::format("{:.1f} s", p.makespan_s), p.name + " makespan"});
  }
  return measurement::WriteReport(path, report);
}

}  // namespace hase::apps

// The HTML report of a simulation, filled policy by policy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "execution/backends/simulated/sim_case.h"
#include "measurement/report/report.h"

namespace hase::apps {

class SimReport {
 public:
  explicit SimReport(bool wanted) : wanted_(wanted) {}

  // Null where no report is wanted. `sim` outlives what is returned.
  std::unique_ptr<measurement::ReportDecisions> SinkFor(const std::string& policy,
                                                        const execution::SimCase& sim);
  // Begins another seed: charts are of the last one.
  void BeginSeed();
  void Add(const std::string& policy, const execution::SimCase& sim,
           const execution::Outcome& outcome,
           std::unique_ptr<measurement::ReportDecisions> decisions);
  // What all seeds together say, for the table.
  void SetSeeds(std::vector<measurement::ReportSeeds> seeds) { report_.seeds = std::move(seeds); }
  void SetGap(const std::string& policy, std::optional<double> closed_gap);
  Status Write(const std::string& path, const std::string& world,
               std::optional<double> lower_bound_s) const;

 private:
  bool wanted_;
  measurement::Report report_;
  std::vector<workload::Job> jobs_;
};

}  // namespace hase::apps

// Report: one self-contained HTML file that shows what a run, a demo or a simulation did: makespans
// with the bound, a Gantt chart per policy, predictions against measurements, decision records.
// Charts by Apache ECharts, inlined at build time; the file loads nothing and works offline.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "execution/engine.h"
#include "execution/outcome.h"
#include "workload/job.h"

namespace hase::measurement {

struct ReportCard {
  std::string value, label;  // "0.84", "of the gap to the lower bound closed"
};

struct ReportDevice {
  std::string name, description;
};

struct ReportBar {
  std::string job, model, device, why;
  int64_t batch = 1, inputs = 0;
  double start_s = 0, end_s = 0;
  std::optional<double> loaded_s, predicted_end_s;
  bool ok = true;
  bool backfilled = false;           // started while an earlier job held a reservation
  std::optional<double> promised_s;  // "starts by", of the job's first promise
};

struct ReportPoint {
  std::string job, model, device, policy;
  int64_t batch = 1;
  bool load = false;      // the load term, not the work after it
  bool profiled = false;  // whether its (model, batch) was measured before
  double predicted_s = 0, measured_s = 0;
};

struct ReportDecision {
  struct Candidate {
    std::string device, bound_by;
    double share = 1, start_s = 0, finish_s = 0, inflicted_s = 0;
  };
  std::string policy, kind, job, device, why;  // kind: start, reserve, wait, reject
  double t_s = 0, predicted_end_s = 0;
  std::vector<Candidate> candidates;
};

struct ReportPolicy {
  std::string name;
  double makespan_s = 0, mean_completion_s = 0, p99_wait_s = 0, utilisation = 0;
  std::optional<double> closed_gap, decision_p50_us;
  int jobs = 0, finished = 0;
  int promises_made = 0, promises_kept = 0;
  double promised_probability = 0;    // mean
  std::vector<double> completions_s;  // sorted
  struct Moment {
    double t_s = 0, queued = 0, used = 0;  // jobs waiting; part of all devices that is booked
  };
  std::vector<Moment> moments;  // a few hundred, evenly spaced
  std::vector<ReportBar> bars;
};

// One policy over several seeds: mean and half of the 95 % interval.
struct ReportSeeds {
  struct Value {
    double mean = 0, ci95 = 0;
  };
  std::string policy;
  int seeds = 0;
  std::optional<Value> closed_gap;  // none where it means nothing in every seed
  Value makespan_s, completion_s;
};

struct Report {
  std::string title, subtitle;
  std::vector<ReportCard> cards;
  std::vector<ReportDevice> devices;
  std::optional<double> lower_bound_s;
  std::vector<ReportPolicy> policies;
  std::string prediction_note;
  std::vector<ReportPoint> points;
  std::vector<ReportDecision> decisions;
  std::vector<std::string> notes;  // one paragraph each, below the devices
  std::vector<ReportSeeds> seeds;  // empty: one seed only
  bool curves = false;             // show distributions, promises and trade-off (simulations)
};

// What a browser still handles with ease; the rest is left out and the notes say so.
constexpr size_t kMaxReportBars = 20'000, kMaxReportDecisions = 5'000;

std::string RenderReport(const Report& report);
Status WriteReport(const std::filesystem::path& path, const Report& report);

// A policy's figures, bars and points from what the engine gives back. `jobs` by JobId.
ReportPolicy PolicyOf(const std::string& name, const execution::Outcome& outcome,
                      std::span<const workload::Job> jobs, const cluster::Cluster& cluster);

// Collects decisions while the engine runs.
class ReportDecisions : public execution::DecisionSink {
 public:
  // Both must outlive this. Keeps at most kMaxReportDecisions.
  ReportDecisions(std::string policy, std::span<const workload::Job> jobs,
                  const cluster::Cluster& cluster)
      : policy_(std::move(policy)), jobs_(jobs), cluster_(cluster) {}
  void OnDecision(Nanos now, const placement::Decision& decision) override;
  const std::vector<ReportDecision>& decisions() const { return decisions_; }

 private:
  std::string policy_;
  std::span<const workload::Job> jobs_;
  const cluster::Cluster& cluster_;
  std::vector<ReportDecision> decisions_;
};

}  // namespace hase::measurement

// Arena: one cluster, one set of services, one world — where service plans are made and judged.
//
// The world (world::LawTruth) is drawn from a seed around the estimator's figures; the planners are
// told nine profile points and one DRAM counter reading per (model, device type), three runs on
// each card and eight co-runs per device type, measured in that world with its noise, and nothing
// else of it. All policies get the same ServiceView.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/device.h"
#include "latency/service_model.h"
#include "placement/plan.h"
#include "placement/services/queueing.h"
#include "placement/view.h"
#include "workload/job.h"
#include "world/arrivals.h"
#include "world/requests.h"
#include "world/serving_truth.h"

namespace hase::serving {

struct ServingCase {
  cluster::Cluster cluster;
  std::vector<workload::Service> services;
  std::vector<ModelId> models;  // by service
  const latency::Estimator* estimator = nullptr;
};

struct Judgement {
  world::RequestOutcome at_plan;  // at the planned rates
  double planned_rps = 0;
  double scale = 0;  // greatest factor on the planned rates that keeps every objective
  double throughput_rps() const { return planned_rps * scale; }
  // 1 where nobody was served, because the plan leaves somebody out.
  double late_fraction() const { return at_plan.services.empty() ? 1 : at_plan.late_fraction(); }
  std::vector<double> planned_ms;  // as given
  // Of planned and simulated response at each service's percentile, world / plan - 1.
  std::vector<double> response_error;
};

class Arena {
 public:
  Arena(ServingCase given, const world::ServingLawParameters& law, uint64_t seed, bool profiled);
  Arena(const Arena&) = delete;

  // Demands at the rates of time zero.
  placement::ServiceView View() const;
  const world::LawTruth& truth() const { return *truth_; }
  const latency::ServiceModel& model() const { return *model_; }
  const ServingCase& given() const { return given_; }

  world::RequestOutcome Serve(std::span<const placement::Instance> instances,
                              std::span<const double> rates_rps, world::ArrivalPattern pattern,
                              double duration_s, uint64_t seed,
                              std::span<const double> trace = {}) const;
  // `planned_ms`: the planner's response at the percentile, by service; may be empty.
  // `trace`: as in Serve.
  Judgement Judge(std::span<const placement::Instance> instances,
                  std::span<const double> planned_ms, uint64_t seed,
                  world::ArrivalPattern pattern = world::ArrivalPattern::kPoisson,
                  std::span<const double> trace = {}) const;
  double CostPerHour(std::span<const placement::Instance> instances) const;
  int DevicesUsed(std::span<const placement::Instance> instances) const;

 private:
  void ProfileAll(uint64_t seed);
  void CompareCards(Rng noise);
  void ProfilePairs(Rng noise);
  // Tenants: service and batch.
  void CoRun(const placement::DeviceState& device,
             const std::vector<std::pair<size_t, int64_t>>& tenants, MilliShare share, Rng& noise,
             std::vector<latency::CoRun>& runs) const;

  ServingCase given_;
  std::vector<double> prices_;
  std::vector<placement::DeviceState> devices_;
  std::vector<placement::ServiceDemand> demands_;
  std::vector<bool> servable_;  // not refused by every policy
  std::unique_ptr<world::LawTruth> truth_;
  std::unique_ptr<latency::ServiceModel> model_;
};

// What the planner's model says of one instance of a plan, beside the others on its device.
struct PlannedLatency {
  double at_percentile_ms = 0, p50_ms = 0, p99_ms = 0;
  double run_ms = 0, wait_ms = 0;                                          // means
  double compute_ms = 0, dram_ms = 0, launch_ms = 0, interference_ms = 0;  // of a run
  placement::QueuePart part;
};
PlannedLatency LatencyOf(const placement::ServiceView& view, const latency::ServiceModel& model,
                         std::span<const placement::Instance> instances, size_t index);
// By service: the response at its percentile over all its instances, ms; 0 without instance.
std::vector<double> PlannedResponses(const placement::ServiceView& view,
                                     const latency::ServiceModel& model,
                                     std::span<const placement::Instance> instances);

}  // namespace hase::serving

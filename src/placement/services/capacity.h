// What one service can do on one share of one device type: the sustainable rate under its
// objective, for every share step and batch, from the share law and the queue. Monotone envelope:
// more share is never worth less.
//
// Computed once per (model, objective, device type) and shared by services that are alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "latency/service_model.h"
#include "placement/services/queueing.h"
#include "placement/view.h"

namespace hase::placement {

// One batch size on one share step, alone on the device.
struct BatchOption {
  int64_t batch = 1;
  BatchServer server;      // run time with the planning margin
  double plain_run_s = 0;  // without it
  ResponseCurve response{};
  latency::Neighbour busy;  // what it is to its neighbours while it runs
  Bytes memory;
  // What it is to its neighbours at this rate (per process), its runs `factor` times longer: busy
  // for longer, and while it is busy as hard on the others as ever.
  latency::Neighbour LoadAt(double rate_rps, double factor = 1) const {
    BatchServer slowed = server;
    slowed.run_s *= factor;
    latency::Neighbour load = busy;
    load.busy = BatchQueue::BusyFraction(slowed, rate_rps);
    return load;
  }
};

// One way to serve: share and mode, and the batches that fit there.
struct ShareStep {
  latency::ShareGrant grant;
  std::vector<BatchOption> batches;
  double rate_rps = 0;  // best sustainable alone (per instance, all its processes)
};

struct Choice {
  int64_t batch = 0;
  double rate_rps = 0;  // sustainable
  const BatchOption* option = nullptr;
};

// The service on the type: all its steps, by growing share. Empty: it cannot run there.
struct Capacity {
  std::vector<ShareStep> steps;
  double load_s = 0;
  // Best batch on a step when co-residents make runs `factor` times longer.
  Choice Best(const ShareStep& step, double factor, double slo_s) const;
  double whole_rate() const { return steps.empty() ? 0 : steps.back().rate_rps; }
  // Greatest rate per share over the steps: no plan can do better on this type.
  double best_density() const;
};

class CapacityTable {
 public:
  // `view` and `model` outlive the table. `margin`: run times are planned at this many shared
  // standard errors above the median.
  CapacityTable(const ServiceView& view, const latency::ServiceModel& model, double margin = 1);

  // Capacity of service i on a device type in the given mode.
  const Capacity& Of(size_t service, DeviceTypeId type, cluster::ShareMode mode) const;
  // The same with several processes of the service inside the share, all busy.
  const Capacity& OfProcesses(size_t service, DeviceTypeId type, cluster::ShareMode mode,
                              int processes) const;
  const BatchQueue& Queue(size_t service) const;
  const ServiceDemand& Demand(size_t service) const { return view_.services[service]; }
  double SloSeconds(size_t service) const { return view_.services[service].slo_ms * 1e-3; }
  double margin() const { return margin_; }
  size_t services() const { return view_.services.size(); }
  const ServiceView& view() const { return view_; }
  const latency::ServiceModel& model() const { return model_; }

 private:
  Capacity Compute(const ServiceDemand& demand, DeviceTypeId type, cluster::ShareMode mode,
                   int processes, const BatchQueue& queue) const;

  using Key = std::tuple<uint32_t, uint32_t, uint8_t, int, int64_t, int64_t, int64_t>;
  const ServiceView& view_;
  const latency::ServiceModel& model_;
  double margin_;
  mutable std::map<int64_t, std::unique_ptr<BatchQueue>> queues_;  // by percentile · 10⁶
  mutable std::map<Key, Capacity> capacities_;
  mutable std::vector<const Capacity*> direct_;  // by (service, type, mode): no look-up twice
};

// The mode in which the planner divides a device: MPS before MIG before quota before time slices.
cluster::ShareMode DivisionMode(std::span<const cluster::ShareMode> modes);
// Share steps of a mode, growing, ending with the whole device.
std::vector<MilliShare> ShareSteps(cluster::ShareMode mode);

}  // namespace hase::placement

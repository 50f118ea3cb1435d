// The real run: three services planned by `inss` on this machine's cores, each instance a worker
// process under a quota that the kernel holds, fed an open-loop Poisson load through in-process
// queues. Profiles nine points per model first (and one co-run), plans, serves, and sets what was
// measured beside what was planned, term by term.
//
//   bench_live_services [SECONDS] [LOAD]     default 60 s at load 0.45 of the cores
//
// Batches run at their full size (a worker's session has fixed shapes); the planner is told so.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <string_view>

#include "apps/serving/arena.h"
#include "latency/neighbour_fit.h"
#include "placement/services/inss.h"
#include "tenants.h"

namespace hase::bench {
namespace {

using cluster::ShareMode;

constexpr const char* kModels[] = {"mobilenet_v3_small", "mobilenet_v2", "resnet18"};
constexpr double kSloMs[] = {120, 250, 400};
constexpr int64_t kBatches[] = {1, 2, 4};
constexpr double kShares[] = {0.25, 0.5, 1};
const std::string kState = "build/surface-models";

double Quantile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = p * static_cast<double>(v.size() - 1);
  const size_t i = static_cast<size_t>(at);
  return i + 1 < v.size() ? v[i] + (at - static_cast<double>(i)) * (v[i + 1] - v[i]) : v[i];
}

// Mean seconds of a batch of each tenant while all run without pause.
Result<std::vector<double>> RunAll(const std::vector<TenantSpec>& specs, double seconds) {
  HASE_ASSIGN_OR_RETURN(auto tenants, Tenants::Start(specs, kState));
  for (size_t i = 0; i < specs.size(); ++i) HASE_RETURN_IF_ERROR(tenants->Run(i, 1'000'000));
  std::vector<std::vector<double>> runs(specs.size());
  const Nanos begin = execution::MonotonicNow();
  while (ToSeconds(execution::MonotonicNow() - begin) < seconds) {
    HASE_ASSIGN_OR_RETURN(const auto done, tenants->Next(seconds));
    if (done) runs[done->tenant].push_back(done->run_s);
  }
  std::vector<double> means;
  for (auto& r : runs) {
    if (r.size() < 3) return Unavailable("too few runs in " + std::to_string(seconds) + " s");
    double sum = 0;  // the first began alone
    for (size_t k = 1; k < r.size(); ++k) sum += r[k];
    means.push_back(sum / static_cast<double>(r.size() - 1));
  }
  return means;
}

// What was measured on all cores, between batches interpolated: the planner's estimator here.
class MeasuredEstimator : public latency::Estimator {
 public:
  void Set(ModelId model, int64_t batch, double seconds) {
    latency::Estimate e;
    e.latency_s = seconds;
    e.compute_part = 1;
    e.sm_demand = 1;
    e.shared_sigma = 0.05;
    e.memory_run = e.memory_load = MiB(200);
    estimates_[{model.index(), batch}] = e;
  }
  const latency::Estimate* Find(ModelId model, DeviceTypeId, int64_t batch) const override {
    const auto found = estimates_.find({model.index(), batch});
    return found != estimates_.end() ? &found->second : nullptr;
  }
  std::string WhyNot(ModelId, DeviceTypeId, int64_t) const override { return "not measured"; }
  double Slowdown(const latency::Tenant&, DeviceTypeId, std::span<const latency::Tenant>,
                  const latency::ForeignLoad&) const override {
    return 1;
  }

 private:
  std::map<std::pair<uint32_t, int64_t>, latency::Estimate> estimates_;
};

struct Measured {
  std::vector<double> response_ms, wait_ms, run_ms, other_ms;
};

struct Lane {  // one instance
  size_t service;
  double weight, credit = 0;
  size_t batch;
  std::deque<double> waiting;  // arrival times
  std::vector<double> running;
  double started = 0;
};

// Open loop: arrivals come when they come.
Result<std::vector<Measured>> Serve(Tenants& tenants, std::vector<Lane>& lanes,
                                    const std::vector<std::vector<double>>& arrivals,
                                    double seconds) {
  std::vector<std::pair<double, size_t>> all;
  for (size_t s = 0; s < arrivals.size(); ++s)
    for (const double t : arrivals[s]) all.emplace_back(t, s);
  std::sort(all.begin(), all.end());
  std::vector<Measured> measured(arrivals.size());
  const Nanos begin = execution::MonotonicNow();
  const auto now = [&] { return ToSeconds(execution::MonotonicNow() - begin); };
  size_t next = 0;
  while (true) {
    while (next < all.size() && all[next].first <= now()) {
      Lane* best = nullptr;
      double total = 0;
      for (Lane& lane : lanes) {
        if (lane.service != all[next].second) continue;
        lane.credit += lane.weight;
        total += lane.weight;
        if (best == nullptr || lane.credit > best->credit) best = &lane;
      }
      if (best == nullptr) return Unavailable("a service has no instance");
      best->credit -= total;
      best->waiting.push_back(all[next++].first);
    }
    bool idle = next == all.size();
    for (size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[i];
      if (lane.running.empty() && !lane.waiting.empty()) {
        const size_t take = std::min(lane.batch, lane.waiting.size());
        lane.running.assign(lane.waiting.begin(),
                            lane.waiting.begin() + static_cast<ptrdiff_t>(take));
        lane.waiting.erase(lane.waiting.begin(),
                           lane.waiting.begin() + static_cast<ptrdiff_t>(take));
        lane.started = now();
        HASE_RETURN_IF_ERROR(tenants.Run(i, 1));
      }
      idle = idle && lane.running.empty();
    }
    if (idle) break;
    const double until = next < all.size() ? std::max(0.0, all[next].first - now()) : 1;
    HASE_ASSIGN_OR_RETURN(const auto done, tenants.Next(until));
    if (!done) continue;
    Lane& lane = lanes[done->tenant];
    const double ended = now();
    Measured& m = measured[lane.service];
    for (const double arrival : lane.running) {
      if (arrival < std::min(2.0, seconds / 10)) continue;  // warming up
      m.response_ms.push_back(1e3 * (ended - arrival));
      m.wait_ms.push_back(1e3 * (lane.started - arrival));
      m.run_ms.push_back(1e3 * done->run_s);
      m.other_ms.push_back(1e3 * (ended - lane.started - done->run_s));
    }
    lane.running.clear();
  }
  return measured;
}

double Mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

Result<int> Main(double seconds, double load) {
  cluster::Cluster cluster;
  cluster::DeviceType type;
  type.name = "cpu";
  type.spec.kind = cluster::DeviceKind::kCpu;
  cluster.types.push_back(type);
  const std::vector<cluster::DeviceType>& types = cluster.types;

  MeasuredEstimator estimator;
  std::map<std::tuple<size_t, int64_t, double>, double> measured;
  for (size_t m = 0; m < std::size(kModels); ++m)
    for (const int64_t batch : kBatches)
      for (const double share : kShares) {
        HASE_ASSIGN_OR_RETURN(const auto mean, RunAll({{kModels[m], batch, share}}, 1.5));
        measured[{m, batch, share}] = mean[0];
        if (share == 1) estimator.Set(ModelId(static_cast<uint32_t>(m)), batch, mean[0]);
        fmt::print(stderr, "{} batch {} share {:g}: {:.2f} ms\n", kModels[m], batch, share,
                   1e3 * mean[0]);
      }
  latency::ServiceModel model(estimator, types);
  for (size_t m = 0; m < std::size(kModels); ++m) {
    std::vector<latency::SurfacePoint> points;
    for (const int64_t batch : kBatches)
      for (const double share : kShares)
        points.push_back({batch,
                          {ShareFromFraction(share), ShareMode::kCpuQuota, 1},
                          measured[{m, batch, share}]});
    model.Profile(ModelId(static_cast<uint32_t>(m)), DeviceTypeId(0), points);
  }
  // One co-run: what busy neighbours cost.
  HASE_ASSIGN_OR_RETURN(
      const auto together,
      RunAll({{kModels[0], 4, 0.25}, {kModels[1], 4, 0.25}, {kModels[2], 4, 0.5}}, 3));
  std::vector<latency::CoRun> co_runs;
  for (size_t k = 0; k < 3; ++k) {
    latency::Neighbourhood others;
    others.Add({.busy = 2});
    co_runs.push_back({{}, others, together[k] / measured[{k, 4, k == 2 ? 0.5 : 0.25}]});
    fmt::print(stderr, "{} beside the others: {:.2f} times its time alone\n", kModels[k],
               co_runs.back().ratio);
  }
  model.SetNeighbours(DeviceTypeId(0), latency::FitNeighbours(co_runs, latency::ShareLaw()));

  std::vector<placement::ServiceDemand> demands;
  for (size_t m = 0; m < std::size(kModels); ++m) {
    placement::ServiceDemand d;
    d.id = ServiceId(static_cast<uint32_t>(m));
    d.model = ModelId(static_cast<uint32_t>(m));
    d.slo_ms = kSloMs[m];
    d.max_batch = 4;
    d.rate_rps = load / 3 * 4 / measured[{m, 4, 1}];
    demands.push_back(d);
  }
  placement::DeviceState device;
  device.id = DeviceId(0);
  device.type = DeviceTypeId(0);
  device.memory_total = GiB(4);
  device.modes = {ShareMode::kCpuQuota};
  placement::ServiceView view;
  view.services = demands;
  view.devices = {&device, 1};
  view.types = types;
  view.estimator = &estimator;
  view.model = &model;
  view.padded = true;
  placement::InssOptions options;
  options.objective = placement::ServiceObjective::kGivenRates;
  const auto plan = placement::InssPolicy(options).Decide(view);
  for (const auto& r : plan.rejected)
    fmt::print("{}: {}; {}\n", kModels[r.service.index()], r.why, r.nearest_feasible);
  if (plan.instances.empty()) return Infeasible("no plan at this load");

  std::vector<TenantSpec> specs;
  std::vector<Lane> lanes;
  for (const auto& i : plan.instances) {
    specs.push_back({kModels[i.service.index()], i.batch, ToFraction(i.share)});
    Lane lane{};
    lane.service = i.service.index();
    lane.weight = i.rate_rps;
    lane.batch = static_cast<size_t>(i.batch);
    lanes.push_back(lane);
  }
  HASE_ASSIGN_OR_RETURN(auto tenants, Tenants::Start(specs, kState));
  std::vector<std::vector<double>> arrivals;
  for (size_t s = 0; s < demands.size(); ++s) {
    const workload::RatePoint rate{Nanos(0), demands[s].rate_rps};
    arrivals.push_back(world::Arrivals(world::ArrivalPattern::kPoisson, {&rate, 1}, seconds,
                                       Rng(7).Split(kModels[s])));
  }
  HASE_ASSIGN_OR_RETURN(const auto served, Serve(*tenants, lanes, arrivals, seconds));

  bool kept = true;
  const auto planned = serving::PlannedResponses(view, model, plan.instances);
  for (size_t i = 0; i < plan.instances.size(); ++i) {
    const auto& instance = plan.instances[i];
    const size_t s = instance.service.index();
    const auto l = serving::LatencyOf(view, model, plan.instances, i);
    const Measured& m = served[s];
    const double p99 = Quantile(m.response_ms, 0.99);
    kept = kept && p99 <= demands[s].slo_ms;
    fmt::print(
        "{:<20} {:>5.1f}/s, {} (batch {}), {} requests\n"
        "  p99: planned {:.1f} ms, measured {:.1f} ms, objective {:g} ms; late {:.2f} %\n"
        "  p50: planned {:.1f}, measured {:.1f}; run: planned {:.1f} (of it neighbours "
        "{:.1f}), measured {:.1f}; wait: measured mean {:.1f}; dispatch: {:.2f} ms\n",
        kModels[s], demands[s].rate_rps, tenants->Enforcement(i), instance.batch,
        m.response_ms.size(), planned[s], p99, demands[s].slo_ms,
        100.0 *
            static_cast<double>(std::count_if(m.response_ms.begin(), m.response_ms.end(),
                                              [&](double r) { return r > demands[s].slo_ms; })) /
            static_cast<double>(std::max<size_t>(1, m.response_ms.size())),
        l.p50_ms, Quantile(m.response_ms, 0.5), l.run_ms, l.interference_ms, Mean(m.run_ms),
        Mean(m.wait_ms), Mean(m.other_ms));
  }
  fmt::print("{}: every objective {}\n", Fingerprint(), kept ? "kept" : "NOT kept");
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace hase::bench

int main(int argc, char** argv) {
  // A worker is this binary run again.
  if (argc == 4 && std::string_view(argv[1]) == "worker")
    return hase::execution::WorkerMain(3, hase::Nanos(std::atoll(argv[3])));
  CLI::App app("Plan three services on this machine's cores, serve them, compare by term",
               "bench_live_services");
  double seconds = 60, load = 0.45;
  app.add_option("SECONDS", seconds, "Of serving")->capture_default_str();
  app.add_option("LOAD", load, "Of the cores")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto status = hase::bench::Main(seconds, load);
  if (!status) {
    fmt::print(stderr, "bench_live_services: {}\n", status.error().message);
    return 1;
  }
  return *status;
}

// decide_bench: wall time of one Decide() of a policy in the steady state of a large cluster: half
// of the devices shared by two jobs, the rest held by one, 1,000 jobs queued, one resident ending
// between calls (what the plan starts is applied, and as many jobs arrive). Then a burst: 10,000
// arrivals planned until all have been started or promised.
//
//   decide_bench [--policy SPEC] [--calls N] [--queue N]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/rng.h"
#include "placement/forecast.h"
#include "placement/policy.h"
#include "placement/test_world.h"

namespace hase::placement {
namespace {

constexpr int kTypes = 4, kModels = 24;

class Steady {
 public:
  Steady(uint32_t devices, size_t queue, uint64_t seed) : rng_(seed) {
    constexpr double kSpeed[kTypes] = {1, 0.7, 0.4, 0.25};
    for (int m = 0; m < kModels; ++m) {
      FakeEstimator::Model model;
      const double base = rng_.Uniform(0.005, 0.05);
      for (const double s : kSpeed) model.latency_s.push_back(base / s * rng_.Uniform(0.9, 1.1));
      model.load_s = 0.5;
      model.sigma = 0.1;
      model.memory = MiB(rng_.UniformInt(500, 7000));
      model.compute_part = rng_.Uniform(0.2, 1);
      estimator_.Add(model);
    }
    types_.resize(kTypes);
    nodes_.resize(devices / 8 + 1);
    for (uint32_t i = 0; i < devices; ++i) {
      DeviceState d;
      d.id = DeviceId(i);
      d.type = DeviceTypeId(i % kTypes);
      d.node = NodeId(i / 8);
      d.memory_total = GiB(16);
      d.speed_factor = 1 + 0.01 * static_cast<double>(rng_.UniformInt(-5, 5));
      if (i % 2 == 0) d.modes = {cluster::ShareMode::kMps};
      devices_.push_back(d);
      const QueuedJob first = NewJob(), second = NewJob();
      if (i % 2 == 0) {
        Put(first, {d.id, MilliShare(500), cluster::ShareMode::kMps});
        Put(second, {d.id, MilliShare(500), cluster::ShareMode::kMps});
      } else {
        Put(first, {d.id, kWholeDevice, cluster::ShareMode::kExclusive});
      }
    }
    for (size_t j = 0; j < queue; ++j) queue_.push_back(NewJob());
  }

  // Microseconds of each call.
  std::vector<double> Run(Policy& policy, int calls) {
    Apply(policy.Decide(View(/*everything=*/true)));
    std::vector<double> took;
    for (int c = 0; c < calls; ++c) {
      EndOne();
      const PlanningView view = View(false);
      const auto begin = std::chrono::steady_clock::now();
      const Plan plan = policy.Decide(view);
      const auto end = std::chrono::steady_clock::now();
      took.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
      changed_.clear();
      Apply(plan);
    }
    std::sort(took.begin(), took.end());
    return took;
  }

  double Burst(Policy& policy, size_t arrivals) {
    for (size_t j = 0; j < arrivals; ++j) queue_.push_back(NewJob());
    const PlanningView view = View(false);
    const auto begin = std::chrono::steady_clock::now();
    const Plan plan = policy.Decide(view);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  QueuedJob NewJob() {
    QueuedJob job;
    job.id = JobId(next_job_++);
    job.model = ModelId(static_cast<uint32_t>(rng_.UniformInt(0, kModels - 1)));
    job.inputs_left = rng_.UniformInt(500, 20'000);
    job.arrival = now_;
    if (rng_.Uniform() < 0.1) job.sharing = workload::Sharing::kNever;
    return job;
  }
  void Put(const QueuedJob& job, const Slot& slot) {
    DeviceState& device = devices_[slot.device.index()];
    auto resident = AsResident(View(false), job, job.inputs_left, device, slot.share, slot.mode);
    resident->left = resident->left->ScaledBy(rng_.Uniform(0.05, 1));
    device.residents.push_back(*resident);
    changed_.push_back(device.id);
  }
  void EndOne() {
    now_ += FromMillis(1);
    for (;;) {
      auto& device = devices_[static_cast<size_t>(rng_.UniformInt(0, std::ssize(devices_) - 1))];
      if (device.residents.empty()) continue;
      device.residents.erase(device.residents.begin());
      changed_.push_back(device.id);
      return;
    }
  }
  void Apply(const Plan& plan) {
    for (const Decision& decision : plan.decisions) {
      const auto* start = std::get_if<Start>(&decision);
      if (!start) continue;
      const auto it = std::ranges::find(queue_, start->job, &QueuedJob::id);
      for (const Slot& slot : start->slots) Put(*it, slot);
      queue_.erase(it);
      queue_.push_back(NewJob());
    }
  }
  PlanningView View(bool everything) {
    PlanningView view;
    view.now = now_;
    view.queue = queue_;
    view.devices = devices_;
    view.nodes = nodes_;
    view.types = types_;
    view.estimator = &estimator_;
    view.changed_devices = changed_;
    view.everything_changed = everything;
    return view;
  }

  Rng rng_;
  FakeEstimator estimator_;
  std::vector<cluster::DeviceType> types_;
  std::vector<NodeState> nodes_;
  std::vector<DeviceState> devices_;
  std::vector<QueuedJob> queue_;
  std::vector<DeviceId> changed_;
  Nanos now_ = FromSeconds(1000);
  uint32_t next_job_ = 0;
};

int Main(int argc, char** argv) {
  std::string spec = "hase";
  int calls = 2000;
  size_t queue = 1000;
  CLI::App app("Time of one decision at 100, 1,000 and 10,000 GPUs (docs/scheduler.md)",
               "decide_bench");
  app.add_option("--policy", spec)->capture_default_str();
  app.add_option("--calls", calls)->capture_default_str()->check(CLI::Range(1, 10'000'000));
  app.add_option("--queue", queue, "Jobs waiting")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  fmt::print("policy {}, {} queued jobs, {} calls\n", spec, queue, calls);
  fmt::print("{:>8} {:>10} {:>10} {:>10} {:>16}\n", "devices", "p50 us", "p99 us", "max us",
             "10,000 more s");
  for (const uint32_t devices : {100u, 1000u, 10000u}) {
    auto policy = MakePolicy(spec);
    if (!policy) {
      fmt::print(stderr, "decide_bench: {}\n", policy.error().message);
      return 2;
    }
    Steady steady(devices, queue, 1);
    const auto took = steady.Run(**policy, calls);
    fmt::print("{:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>16.3f}\n", devices, took[took.size() / 2],
               took[took.size() * 99 / 100], took.back(), steady.Burst(**policy, 10'000));
  }
  return 0;
}

}  // namespace
}  // namespace hase::placement

int main(int argc, char** argv) { return hase::placement::Main(argc, argv); }

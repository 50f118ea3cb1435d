#include "apps/serving/drift.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "placement/services/inss.h"
#include "placement/services/rate_watch.h"
#include "world/lifetimes.h"

namespace hase::serving {
namespace {

using placement::AdaptAction;

double RateAt(const workload::Service& service, double t) {
  double rate = service.rate.front().rate_rps;
  for (const auto& point : service.rate) {
    if (ToSeconds(point.time) > t) break;
    rate = point.rate_rps;
  }
  return rate;
}

// The world's instances as the adapter orders them.
class Stage {
 public:
  explicit Stage(const Arena& arena) : arena_(arena) {}

  void Apply(std::span<const AdaptAction> actions, double now) {
    for (const AdaptAction& a : actions) {
      const auto& i = a.instance;
      if (a.kind == AdaptAction::Kind::kStop) {
        instances_[index_[a.id]].closed_s = now;
        continue;
      }
      if (a.kind == AdaptAction::Kind::kTune) {
        auto& running = instances_[index_[a.id]];
        running.later.push_back({now, i.batch, i.rate_rps});
        running.server.batch = std::max(running.server.batch, i.batch);
        continue;
      }
      world::ServingInstance made;
      made.service = i.service;
      made.server = {arena_.given().models[i.service.index()],
                     i.device,
                     i.share,
                     i.mode,
                     i.batch,
                     static_cast<int>(a.id)};
      made.processes = i.processes;
      made.weight = i.rate_rps;
      made.ready_s = now;
      made.cold = now > 0;
      made.later.push_back({now, i.batch, i.rate_rps});
      if (a.kind == AdaptAction::Kind::kReplace) made.replaces = index_[a.replaces];
      index_[a.id] = instances_.size();
      instances_.push_back(std::move(made));
    }
  }

  const std::vector<world::ServingInstance>& instances() const { return instances_; }

 private:
  const Arena& arena_;
  std::vector<world::ServingInstance> instances_;
  std::map<uint32_t, size_t> index_;
};

// Price of the devices over the time that anything stands on them.
double CostOf(const Arena& arena, std::span<const world::ServingInstance> instances,
              double duration_s) {
  const auto lives = world::LifetimesOf(instances, arena.truth());
  std::map<uint32_t, std::vector<std::pair<double, double>>> spans;
  for (size_t i = 0; i < instances.size(); ++i)
    if (lives.of[i].start_s < duration_s)
      spans[instances[i].server.device.index()].emplace_back(
          lives.of[i].start_s, std::min(duration_s, lives.of[i].to_s));
  double cost = 0;
  const auto view = arena.View();
  for (auto& [device, list] : spans) {
    std::sort(list.begin(), list.end());
    double paid_to = 0, seconds = 0;
    for (const auto& [from, to] : list) {
      seconds += std::max(0.0, to - std::max(from, paid_to));
      paid_to = std::max(paid_to, to);
    }
    cost += view.price_per_hour[device] * seconds / 3600;
  }
  return cost;
}

}  // namespace

DriftOutcome ServeDrift(const Arena& arena, const placement::ServicePlan& plan,
                        const DriftOptions& options) {
  const auto view = arena.View();
  const auto& services = arena.given().services;
  std::vector<world::ServedService> asked;
  std::vector<placement::RateWatch> watches;
  for (size_t s = 0; s < services.size(); ++s) {
    asked.push_back(
        {world::Arrivals(options.pattern, services[s].rate, options.duration_s,
                         Rng(options.seed).Split("arrivals " + std::to_string(s)), options.trace),
         services[s].slo_ms, services[s].slo_percentile});
    watches.emplace_back(services[s].rate.front().rate_rps);
  }
  const placement::CapacityTable table(view, arena.model(), placement::InssOptions().margin);
  placement::ServiceAdapter adapter(table, options.adapt);
  Stage stage(arena);
  DriftOutcome outcome;
  const auto apply = [&](const std::vector<AdaptAction>& actions, double now) {
    if (actions.empty()) return;
    std::set<uint32_t> touched;
    for (const AdaptAction& a : actions) {
      touched.insert(a.kind == AdaptAction::Kind::kReplace ? a.replaces : a.id);
      outcome.starts +=
          now > 0 && (a.kind == AdaptAction::Kind::kStart || a.kind == AdaptAction::Kind::kReplace);
    }
    if (now > 0) outcome.touched.push_back(static_cast<int>(touched.size()));
    outcome.actions += now > 0 ? static_cast<int>(actions.size()) : 0;
    stage.Apply(actions, now);
  };
  apply(adapter.Begin(plan), 0);
  std::vector<size_t> next(services.size(), 0);
  for (double now = options.window_s; now < options.duration_s; now += options.window_s) {
    for (size_t s = 0; s < services.size(); ++s) {
      const size_t from = next[s];
      const auto& times = asked[s].arrivals_s;
      while (next[s] < times.size() && times[next[s]] <= now) ++next[s];
      const double rate = watches[s].Observe(static_cast<double>(next[s] - from), options.window_s);
      const auto start = std::chrono::steady_clock::now();
      const auto actions = adapter.OnRate(FromSeconds(now), s, rate);
      outcome.plan_ms.push_back(
          1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      apply(actions, now);
    }
    apply(adapter.OnTick(FromSeconds(now)), now);
  }
  outcome.cost = CostOf(arena, stage.instances(), options.duration_s);
  world::RequestOptions run;
  run.duration_s = options.duration_s;
  run.seed = options.seed;
  outcome.served = world::ServeRequests(asked, stage.instances(), arena.truth(), run);
  return outcome;
}

std::optional<double> ClairvoyantCost(const Arena& arena, double duration_s, double every_s) {
  auto view = arena.View();
  const auto& services = arena.given().services;
  double cost = 0;
  for (double from = 0; from < duration_s; from += every_s) {
    std::vector<placement::ServiceDemand> demands(view.services.begin(), view.services.end());
    for (size_t s = 0; s < services.size(); ++s) {
      double most = RateAt(services[s], from);
      for (const auto& point : services[s].rate)
        if (ToSeconds(point.time) > from && ToSeconds(point.time) < from + every_s)
          most = std::max(most, point.rate_rps);
      demands[s].rate_rps = most;
    }
    auto now = view;
    now.services = demands;
    placement::InssOptions options;
    options.objective = placement::ServiceObjective::kMinCost;
    options.orders = 4;
    const auto plan = placement::InssPolicy(options).Decide(now);
    if (plan.instances.empty()) return std::nullopt;
    cost += arena.CostPerHour(plan.instances) * every_s / 3600;
  }
  return cost;
}

}  // namespace hase::serving

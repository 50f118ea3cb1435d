#include "world/requests.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "world/lifetimes.h"

namespace hase::world {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kMostServers = 1024;  // on one device, over all time
using Busy = std::bitset<kMostServers>;

const Setting* SettingAt(const ServingInstance& instance, double now) {
  const Setting* found = nullptr;
  for (const Setting& s : instance.later) {
    if (s.from_s > now) break;
    found = &s;
  }
  return found;
}
double WeightAt(const ServingInstance& instance, double now) {
  const Setting* s = SettingAt(instance, now);
  return s != nullptr ? s->weight : instance.weight;
}

struct Request {
  double time;
  uint32_t instance;
  uint32_t service;
};

struct Times {
  double wait_s = 0, run_s = 0;
};

// Sends each request to a live instance of its service: smooth weighted round robin.
class Router {
 public:
  Router(size_t services, std::span<const ServingInstance> instances,
         std::span<const Lifetime> lives)
      : instances_(instances), lives_(lives) {
    of_.resize(services);
    credit_.resize(instances.size());
    for (uint32_t i = 0; i < instances.size(); ++i) of_[instances[i].service.index()].push_back(i);
  }

  std::optional<uint32_t> Route(uint32_t service, double now) {
    double total = 0;
    std::optional<uint32_t> best;
    for (const uint32_t i : of_[service]) {
      if (lives_[i].from_s > now || lives_[i].to_s <= now) continue;
      const double weight = WeightAt(instances_[i], now);
      if (weight <= 0) continue;
      total += weight;
      credit_[i] += weight;
      if (!best || credit_[i] > credit_[*best]) best = i;
    }
    if (best) credit_[*best] -= total;
    return best;
  }

 private:
  std::span<const ServingInstance> instances_;
  std::span<const Lifetime> lives_;
  std::vector<std::vector<uint32_t>> of_;
  std::vector<double> credit_;
};

// Everything that happens on one device.
class DeviceRun {
 public:
  DeviceRun(std::span<const ServingInstance> instances, std::vector<uint32_t> members,
            std::span<const Lifetime> lives, const ServingTruth& truth, Rng rng)
      : instances_(instances),
        lives_(lives),
        members_(std::move(members)),
        truth_(truth),
        rng_(rng) {
    for (uint32_t m = 0; m < members_.size(); ++m) {
      const ServingInstance& instance = instances_[members_[m]];
      local_[members_[m]] = m;
      queues_.push_back({});
      seconds_.push_back({});
      for (int64_t n = 1; n <= instance.server.batch; ++n)
        seconds_.back().push_back(truth.BatchSeconds(instance.server, n));
      for (int p = 0; p < instance.processes; ++p) servers_.push_back({m, &instance.server, {}});
    }
    HASE_CHECK(servers_.size() <= kMostServers, "{} servers on one device", servers_.size());
    for (const uint32_t i : members_)
      for (const double t : {lives_[i].from_s, lives_[i].to_s})
        if (t < kNever) turns_.push_back(t);
    std::sort(turns_.begin(), turns_.end());
    LookAround(0);
  }

  // `arrivals` sorted by time. finish(request, wait, run) is called once for each.
  template <typename Finish>
  void Run(const std::vector<Request>& arrivals, Finish finish) {
    size_t next = 0;
    double now = 0;
    while (true) {
      const double arrival = next < arrivals.size() ? arrivals[next].time : kNever;
      const auto [done, server] = NextDone();
      const double timer = NextTimer(now);
      const double event = std::min({arrival, done, timer});
      if (event == kNever) break;
      Advance(event - now);
      now = event;
      if (turn_ < turns_.size() && turns_[turn_] <= now) LookAround(now);
      if (event == done) Complete(servers_[server], now, finish);
      while (next < arrivals.size() && arrivals[next].time <= now) {
        const Request& r = arrivals[next++];
        queues_[local_[r.instance]].waiting.push_back(r);
      }
      StartBatches(now);
    }
  }

  int64_t batches = 0;

 private:
  struct Queue {
    std::vector<Request> waiting;
    size_t head = 0;
    size_t size() const { return waiting.size() - head; }
  };
  struct Running {
    std::vector<Request> batch;
    double started = 0;
    double left = 0;  // seconds without neighbours
    double rate = 1;
  };
  struct Process {
    uint32_t member;
    const Server* server;
    Running run;
    bool busy() const { return !run.batch.empty(); }
  };

  // Which servers can have anything to do from now on until the next of them opens or closes.
  void LookAround(double now) {
    while (turn_ < turns_.size() && turns_[turn_] <= now) ++turn_;
    alive_.clear();
    for (size_t i = 0; i < servers_.size(); ++i) {
      const Lifetime& life = lives_[members_[servers_[i].member]];
      const bool open = life.from_s <= now && life.to_s > now;
      if (open || servers_[i].busy() || queues_[servers_[i].member].size() > 0)
        alive_.push_back(static_cast<uint32_t>(i));
    }
  }

  std::pair<double, size_t> NextDone() const {
    double best = kNever;
    size_t which = 0;
    for (const uint32_t i : alive_) {
      if (!servers_[i].busy()) continue;
      const double t = clock_ + servers_[i].run.left / servers_[i].run.rate;
      if (t < best) best = t, which = i;
    }
    return {best, which};
  }

  // When the oldest request of an idle server will have waited long enough.
  double NextTimer(double now) const {
    double best = kNever;
    for (const uint32_t i : alive_) {
      const Process& p = servers_[i];
      const Queue& q = queues_[p.member];
      if (p.busy() || q.size() == 0) continue;
      const double t = q.waiting[q.head].time + instances_[members_[p.member]].max_wait_s;
      best = std::min(best, std::max(t, now));
    }
    return best;
  }

  void Advance(double by) {
    for (const uint32_t i : alive_)
      if (Process& p = servers_[i]; p.busy()) p.run.left -= by * p.run.rate;
    clock_ += by;
  }

  template <typename Finish>
  void Complete(Process& p, double now, Finish& finish) {
    for (const Request& r : p.run.batch)
      finish(r, Times{p.run.started - r.time, now - p.run.started}, p.run.batch.size());
    p.run.batch.clear();
    changed_ = true;
  }

  void StartBatches(double now) {
    for (const uint32_t i : alive_) {
      Process& p = servers_[i];
      Queue& q = queues_[p.member];
      if (p.busy() || q.size() == 0) continue;
      const ServingInstance& instance = instances_[members_[p.member]];
      const Setting* setting = instance.later.empty() ? nullptr : SettingAt(instance, now);
      const size_t full = static_cast<size_t>(
          setting != nullptr ? std::clamp<int64_t>(setting->batch, 1, instance.server.batch)
                             : instance.server.batch);
      // NextTimer's own expression: a difference would round, and never come true late in a run.
      const bool waited = now >= q.waiting[q.head].time + instance.max_wait_s;
      if (q.size() < full && !waited) continue;
      const size_t take = std::min(full, q.size());
      const auto first = q.waiting.begin() + static_cast<ptrdiff_t>(q.head);
      p.run.batch.assign(first, first + static_cast<ptrdiff_t>(take));
      q.head += take;
      if (q.head > 4096 && q.head * 2 > q.waiting.size()) {
        q.waiting.erase(q.waiting.begin(), q.waiting.begin() + static_cast<ptrdiff_t>(q.head));
        q.head = 0;
      }
      p.run.started = now;
      p.run.left = seconds_[p.member][take - 1] * truth_.Noise(rng_);
      p.run.rate = 1;
      ++batches;
      changed_ = true;
    }
    if (changed_) SetRates();
    changed_ = false;
  }

  // Rates depend on who is busy alone, so each set of busy servers is asked for once.
  void SetRates() {
    Busy mask;
    for (const uint32_t i : alive_) mask[i] = servers_[i].busy();
    if (mask.none()) return;
    auto [found, fresh] = ratios_.try_emplace(mask);
    if (fresh) {
      std::vector<const Server*> busy;
      for (const Process& p : servers_)
        if (p.busy()) busy.push_back(p.server);
      found->second.resize(busy.size());
      truth_.Ratios(busy, found->second);
    }
    size_t k = 0;
    for (Process& p : servers_)
      if (p.busy()) p.run.rate = 1 / found->second[k++];
  }

  std::span<const ServingInstance> instances_;
  std::span<const Lifetime> lives_;
  std::vector<uint32_t> members_;
  const ServingTruth& truth_;
  Rng rng_;
  std::unordered_map<uint32_t, uint32_t> local_;
  std::vector<Queue> queues_;
  std::vector<std::vector<double>> seconds_;  // by member and items - 1
  std::vector<Process> servers_;
  std::unordered_map<Busy, std::vector<double>> ratios_;
  std::vector<double> turns_;  // when a member opens or closes
  size_t turn_ = 0;
  std::vector<uint32_t> alive_;
  double clock_ = 0;
  bool changed_ = false;
};

double Quantile(std::vector<float>& values, double p) {
  if (values.empty()) return 0;
  const size_t k = std::min(
      values.size() - 1,
      static_cast<size_t>(std::ceil(p * static_cast<double>(values.size()))) - (p > 0 ? 1 : 0));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(k), values.end());
  return values[k];
}

struct Tally {
  std::vector<float> ms;
  int64_t unserved = 0;
  double wait = 0, run = 0, batch = 0;
};

ServiceOutcome Sum(Tally& tally, const ServedService& service) {
  ServiceOutcome o;
  const int64_t served = static_cast<int64_t>(tally.ms.size());
  o.requests = served + tally.unserved;
  o.late = tally.unserved;
  for (const float ms : tally.ms) o.late += ms > service.slo_ms;
  if (o.requests > 0)
    o.attainment = 1 - static_cast<double>(o.late) / static_cast<double>(o.requests);
  if (served == 0) return o;
  o.p50_ms = Quantile(tally.ms, 0.5);
  o.p99_ms = Quantile(tally.ms, 0.99);
  o.at_percentile_ms = Quantile(tally.ms, service.percentile);
  o.mean_wait_ms = 1e3 * tally.wait / static_cast<double>(served);
  o.mean_run_ms = 1e3 * tally.run / static_cast<double>(served);
  o.mean_batch = tally.batch / static_cast<double>(served);
  return o;
}

}  // namespace

bool RequestOutcome::every_objective_kept(std::span<const ServedService> asked) const {
  for (size_t i = 0; i < asked.size(); ++i)
    if (services[i].attainment < asked[i].percentile) return false;
  return true;
}

RequestOutcome ServeRequests(std::span<const ServedService> services,
                             std::span<const ServingInstance> instances, const ServingTruth& truth,
                             const RequestOptions& options) {
  const Lifetimes lives = LifetimesOf(instances, truth);
  Router router(services.size(), instances, lives.of);
  std::map<uint32_t, std::vector<uint32_t>> members;  // by device, in order
  for (uint32_t i = 0; i < instances.size(); ++i)
    members[instances[i].server.device.index()].push_back(i);
  std::map<uint32_t, std::vector<Request>> by_device;
  std::vector<Tally> tallies(services.size());
  for (uint32_t s = 0; s < services.size(); ++s)
    for (const double t : services[s].arrivals_s) {
      if (const auto instance = router.Route(s, t))
        by_device[instances[*instance].server.device.index()].push_back({t, *instance, s});
      else if (t >= options.warm_up_s)
        ++tallies[s].unserved;
    }
  const Rng rng(options.seed);
  for (auto& [device, requests] : by_device) {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const Request& a, const Request& b) { return a.time < b.time; });
    DeviceRun run(instances, members[device], lives.of, truth,
                  rng.Split("device " + std::to_string(device)));
    run.Run(requests, [&](const Request& r, Times times, size_t batch) {
      if (r.time < options.warm_up_s) return;
      Tally& tally = tallies[r.service];
      tally.ms.push_back(static_cast<float>(1e3 * (times.wait_s + times.run_s)));
      tally.wait += times.wait_s;
      tally.run += times.run_s;
      tally.batch += static_cast<double>(batch);
    });
  }
  RequestOutcome outcome;
  outcome.delayed_starts = lives.delayed_starts;
  outcome.gaps = lives.gaps;
  outcome.loading_s = lives.loading_s;
  for (size_t s = 0; s < services.size(); ++s) {
    outcome.services.push_back(Sum(tallies[s], services[s]));
    outcome.requests += outcome.services.back().requests;
    outcome.late += outcome.services.back().late;
  }
  const double counted = std::max(1e-9, options.duration_s - options.warm_up_s);
  outcome.goodput_rps = static_cast<double>(outcome.requests - outcome.late) / counted;
  return outcome;
}

}  // namespace hase::world

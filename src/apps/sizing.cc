#include "apps/sizing.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <queue>
#include <span>

#include "apps/sim_bounds.h"
#include "apps/worlds.h"
#include "cluster/catalogue.h"
#include "execution/event_log.h"
#include "latency/estimator.h"
#include "measurement/metrics.h"

namespace hase::apps {
namespace {

using execution::SimCase;

// The estimator of all types to choose from, asked about those that a cluster has.
class SomeTypes : public latency::Estimator {
 public:
  // `all` outlives this. of_all[i]: what the cluster's type i is called there.
  SomeTypes(const latency::Estimator& all, std::vector<DeviceTypeId> of_all)
      : all_(all), of_all_(std::move(of_all)) {}
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override {
    return all_.Find(model, of_all_[type.index()], batch);
  }
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override {
    return all_.WhyNot(model, of_all_[type.index()], batch);
  }
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId type,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad& foreign) const override {
    return all_.Slowdown(tenant, of_all_[type.index()], others, foreign);
  }

 private:
  const latency::Estimator& all_;
  std::vector<DeviceTypeId> of_all_;
};

// One seed's trace, on a cluster that is made anew for every try.
class Trial {
 public:
  static Result<Trial> Make(const SizeQuestion& q, uint64_t seed) {
    Trial trial(q, seed);
    SimFlags flags = q.sim;
    // The trace is sized and spaced on one card of each type.
    flags.cluster_text = "nodes:\n";
    for (size_t t = 0; t < q.types.size(); ++t) {
      flags.cluster_text += fmt::format(
          "  - {{name: pool{}, devices: [{{type: \"{}\", count: 1}}]}}\n", t, q.types[t]);
    }
    HASE_ASSIGN_OR_RETURN(trial.sim_, BuildSimCase(flags, seed));
    trial.pools_ = trial.sim_->cluster.devices;
    trial.types_ = trial.sim_->cluster.types;
    trial.estimator_ = std::move(trial.sim_->estimator);
    return trial;
  }

  // Types without a card are left out: policies weigh all the types that there are.
  Status SetCounts(const std::vector<int>& counts) {
    auto& cluster = sim_->cluster;
    cluster.devices.clear();
    cluster.types.clear();
    std::vector<DeviceTypeId> of_all;
    for (size_t t = 0; t < counts.size(); ++t) {
      if (counts[t] == 0) continue;
      const DeviceTypeId type(static_cast<uint32_t>(of_all.size()));
      of_all.push_back(pools_[t].type);
      cluster.types.push_back(types_[pools_[t].type.index()]);
      for (int i = 0; i < counts[t]; ++i) {
        cluster::Device device = pools_[t];
        device.id = DeviceId(static_cast<uint32_t>(cluster.devices.size()));
        device.type = type;
        device.name = fmt::format("{}/{}", cluster.types[device.type.index()].name, i);
        cluster.devices.push_back(std::move(device));
      }
    }
    sim_->estimator = std::make_unique<SomeTypes>(*estimator_, std::move(of_all));
    // By name: a T4 is the same card whatever other types there are to choose from.
    HASE_ASSIGN_OR_RETURN(sim_->world, MakeWorld(q_->sim, seed_, *sim_, world::CardDraws::kByName));
    return {};
  }

  // A bound on when the jobs that count can be done, and when they must be.
  bool MayMeet(double& bound_s) const {
    const Bounds bounds = LowerBounds(*sim_, SimTruth(*sim_));
    bound_s = bounds.makespan_s;
    if (q_->target.makespan_s > 0) return bounds.makespan_s <= q_->target.makespan_s;
    if (q_->target.miss > 0) return true;
    // All jobs with a deadline must fit before the last of them; the others may wait for ever.
    Nanos last, first = Nanos::Max();
    bool all = true;
    for (const auto& j : sim_->jobs) {
      first = std::min(first, j.job.arrival);
      all = all && j.job.deadline;
      if (j.job.deadline) last = std::max(last, *j.job.deadline);
    }
    return !all || bounds.makespan_s <= ToSeconds(last - first);
  }

  Result<measurement::Metrics> Simulate() const {
    HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy(q_->policy));
    execution::NullJournal journal;
    HASE_ASSIGN_OR_RETURN(const auto outcome, execution::RunCase(*sim_, *policy, journal));
    return measurement::ComputeMetrics(outcome, sim_->cluster.devices.size());
  }
  const SimCase& sim() const { return *sim_; }

 private:
  Trial(const SizeQuestion& q, uint64_t seed) : q_(&q), seed_(seed) {}
  const SizeQuestion* q_;
  uint64_t seed_;
  std::unique_ptr<SimCase> sim_;
  // Of all types to choose from; one card of each.
  std::vector<cluster::Device> pools_;
  std::vector<cluster::DeviceType> types_;
  std::unique_ptr<latency::Estimator> estimator_;
};

bool Meets(const SizeTarget& target, const measurement::Metrics& m) {
  if (m.finished < m.jobs) return false;
  return target.makespan_s > 0 ? m.makespan_s <= target.makespan_s : m.deadline_miss <= target.miss;
}

// All counts in order of price: each is reached once, from the one that lacks a card of its last
// type.
class ByPrice {
 public:
  ByPrice(std::vector<double> prices, int most) : prices_(std::move(prices)), most_(most) {
    Push(std::vector<int>(prices_.size(), 0), 0);
  }
  std::optional<std::pair<double, std::vector<int>>> Next() {
    if (heap_.empty()) return std::nullopt;
    const Entry entry = heap_.top();
    heap_.pop();
    int cards = 0;
    for (const int n : entry.counts) cards += n;
    for (size_t t = entry.last; t < prices_.size() && cards < most_; ++t) {
      auto counts = entry.counts;
      ++counts[t];
      Push(std::move(counts), t);
    }
    return std::pair(entry.price, entry.counts);
  }

 private:
  struct Entry {
    double price;
    std::vector<int> counts;
    size_t last;
    bool operator>(const Entry& o) const {
      return price != o.price ? price > o.price : counts > o.counts;
    }
  };
  void Push(std::vector<int> counts, size_t last) {
    double price = 0;
    for (size_t t = 0; t < counts.size(); ++t) price += prices_[t] * counts[t];
    heap_.push({price, std::move(counts), last});
  }
  std::vector<double> prices_;
  int most_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

Result<std::vector<double>> PricesOf(const SizeQuestion& q, const SimCase& sim) {
  std::vector<double> prices;
  for (size_t t = 0; t < q.types.size(); ++t) {
    const auto& device = sim.cluster.devices[t];
    double price = t < q.prices.size() ? q.prices[t] : 0;
    if (price <= 0) price = sim.cluster.types[device.type.index()].spec.price_per_hour;
    if (price <= 0) {
      return Usage(fmt::format("no price is known of {}: give --price {}=DOLLARS_PER_HOUR",
                               q.types[t], q.types[t]));
    }
    prices.push_back(price);
  }
  return prices;
}

Status CheckTypes(const std::vector<std::string>& types) {
  if (types.empty()) return Usage("--types needs at least one type of device");
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  std::map<std::string, std::string> named;  // card → as given
  for (const auto& type : types) {
    const auto spec = catalogue.Find(type);
    if (!spec) return Usage(fmt::format("--types: {}", spec.error().message));
    const auto [at, fresh] = named.emplace(spec->name, type);
    if (!fresh) {
      return Usage(fmt::format("--types: {} and {} are the same card", at->second, type));
    }
  }
  return {};
}

}  // namespace

Result<SizeAnswer> FindCheapest(
    const SizeQuestion& q, const std::function<void(const std::vector<int>&, double)>& progress) {
  HASE_RETURN_IF_ERROR(CheckTypes(q.types));
  std::vector<Trial> trials;
  for (const uint64_t seed : q.seeds) {
    HASE_ASSIGN_OR_RETURN(auto trial, Trial::Make(q, seed));
    trials.push_back(std::move(trial));
  }
  const auto& jobs = trials[0].sim().jobs;
  if (q.target.makespan_s <= 0 &&
      std::ranges::none_of(jobs, [](const auto& j) { return j.job.deadline.has_value(); })) {
    return Usage("no job has a deadline: give --makespan SECONDS");
  }
  HASE_ASSIGN_OR_RETURN(const auto prices, PricesOf(q, trials[0].sim()));
  SizeAnswer answer;
  answer.types = q.types;
  ByPrice order(prices, q.most);
  order.Next();  // nothing at all
  while (const auto next = order.Next()) {
    const auto& [price, counts] = *next;
    ++answer.looked_at;
    bool meets = true;
    answer.makespan_s = answer.deadline_miss = 0;
    for (size_t s = 0; s < trials.size() && meets; ++s) {
      HASE_RETURN_IF_ERROR(trials[s].SetCounts(counts));
      double bound = 0;
      meets = trials[s].MayMeet(bound);
      if (s == 0) answer.lower_bound_s = bound;
      if (!meets) {
        ++answer.ruled_out;
        break;
      }
      if (progress) progress(counts, price);
      ++answer.simulated;
      HASE_ASSIGN_OR_RETURN(const auto m, trials[s].Simulate());
      meets = Meets(q.target, m);
      answer.makespan_s = std::max(answer.makespan_s, m.makespan_s);
      answer.deadline_miss = std::max(answer.deadline_miss, m.deadline_miss);
    }
    if (!meets) continue;
    answer.found = true;
    answer.counts = counts;
    answer.cost_per_hour = price;
    return answer;
  }
  return answer;
}

}  // namespace hase::apps

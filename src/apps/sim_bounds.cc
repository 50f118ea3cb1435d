#include "apps/sim_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "apps/sim_configurations.h"
#include "placement/bounds.h"

namespace hase::apps {
namespace {

using execution::SimCase;
constexpr double kNever = std::numeric_limits<double>::infinity();
// Moments after which the work still to come is bounded by itself.
constexpr size_t kReleases = 8;

// For worlds that only know slow-downs: the least part of a shared card that one solo second of
// each kind takes. With g_i the greatest sum of 1 / slow-down over the sets of residents that hold
// kind i, uses 1 / g_i sum to at most one card over any set.
//
// Pairs are tried exhaustively at the shares that policies give. More residents never run faster
// than the pairs among them (no law speeds anybody up by company), so with P the greatest sum of a
// pair at the shares that a third or fourth leaves: three are at most P_i + P / 2, four P_i + P.
class PairUse {
 public:
  PairUse(const SimCase& sim, const SimTruth& truth) : sim_(sim), uses_(truth.kinds()) {
    std::vector<bool> seen(truth.kinds());
    for (size_t j = 0; j < sim.jobs.size(); ++j) {
      const auto& job = sim.jobs[j];
      const size_t kind = truth.kind_of(j);
      if (seen[kind] || job.job.sharing == workload::Sharing::kNever) continue;
      seen[kind] = true;
      kinds_.push_back({kind, job.model, job.job.batch});
    }
    std::map<DeviceTypeId, std::vector<double>> by_type;
    for (auto& row : uses_) row.assign(truth.groups().size(), 1);
    for (size_t g = 0; g < truth.groups().size(); ++g) {
      if (!truth.groups()[g].shares) continue;
      auto& uses = by_type[truth.groups()[g].type];
      if (uses.empty()) uses = OnCard(truth.groups()[g].cards[0]);
      for (size_t k = 0; k < kinds_.size(); ++k) uses_[kinds_[k].kind][g] = uses[k];
    }
  }
  double Of(size_t kind, size_t group) const { return uses_[kind][group]; }

 private:
  struct Kind {
    size_t kind;
    ModelId model;
    int64_t batch;
  };
  struct Split {
    int64_t a, b;
    size_t residents;  // that may be there in all when two hold these shares
  };

  std::vector<double> OnCard(DeviceId card) const {
    constexpr Split kSplits[] = {{500, 500, 2}, {250, 750, 2}, {750, 250, 2}, {333, 333, 3},
                                 {250, 500, 3}, {500, 250, 3}, {250, 250, 4}};
    const size_t n = kinds_.size();
    // Greatest pair sums by kind and number of residents; index 2 to 4.
    std::vector<std::array<double, 5>> greatest(n);
    std::array<double, 5> all = {};
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = a; b < n; ++b) {
        for (const Split& split : kSplits) {
          const world::Occupant pair[] = {
              {kinds_[a].model, kinds_[a].batch, MilliShare(split.a), cluster::ShareMode::kMps},
              {kinds_[b].model, kinds_[b].batch, MilliShare(split.b), cluster::ShareMode::kMps}};
          double factors[] = {1, 1};
          sim_.world->Slowdowns(card, pair, factors);
          const double sum = 1 / factors[0] + 1 / factors[1];
          for (const size_t k : {a, b}) {
            greatest[k][split.residents] = std::max(greatest[k][split.residents], sum);
          }
          all[split.residents] = std::max(all[split.residents], sum);
        }
      }
    }
    std::vector<double> uses;
    for (const auto& g : greatest) {
      uses.push_back(1 / std::max({1.0, g[2], g[3] + all[3] / 2, g[4] + all[4]}));
    }
    return uses;
  }

  const SimCase& sim_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<double>> uses_;  // [kind][group]
};

// Work as the linear programme sees it: everything of one kind that arrives in one stretch of time.
class Programme {
 public:
  // `pairs` null: the world says what a second of work takes of resource `mix`.
  Programme(const SimCase& sim, const SimTruth& truth, Nanos first, int mix, const PairUse* pairs,
            size_t most_alone)
      : sim_(sim), truth_(truth), mix_(mix), pairs_(pairs) {
    size_t alone = 0;
    for (const auto& j : sim.jobs) alone += j.job.sharing == workload::Sharing::kNever;
    one_by_one_ = alone <= most_alone;
    std::vector<double> releases;
    for (const auto& j : sim.jobs) releases.push_back(ToSeconds(j.job.arrival - first));
    std::vector<double> sorted = releases;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (size_t k = 0; k < kReleases && k < sorted.size(); ++k) {
      const size_t steps = std::min(kReleases, sorted.size());
      stretches_.push_back(sorted[steps == 1 ? 0 : k * (sorted.size() - 1) / (steps - 1)]);
    }
    for (const auto& g : truth.groups()) {
      instance_.classes.push_back({static_cast<int>(g.cards.size()), 1.0});
    }
    for (size_t j = 0; j < sim.jobs.size(); ++j) Add(j, releases[j]);
    for (auto& [key, job] : work_) instance_.jobs.push_back(std::move(job));
  }
  placement::BoundInstance& instance() { return instance_; }

 private:
  // Kind, stretch, whether it takes whole cards, which part (or the job itself), wishes of type.
  using Key = std::tuple<size_t, size_t, bool, int64_t, std::vector<std::string>>;
  static constexpr int64_t kWork = -1, kLoading = -2;

  void Add(size_t j, double release) {
    const auto& job = sim_.jobs[j].job;
    const auto later = std::upper_bound(stretches_.begin(), stretches_.end(), release);
    const auto stretch = static_cast<size_t>(later - stretches_.begin()) - 1;
    const bool whole = job.sharing == workload::Sharing::kNever;
    const size_t kind = truth_.kind_of(j);
    if (whole && one_by_one_) {
      AddWork(j, {kind, stretch, whole, static_cast<int64_t>(j), job.device_types}, 1);
      return;
    }
    AddWork(j, {kind, stretch, whole, kWork, job.device_types}, truth_.batches(j));
    AddWork(j, {kind, stretch, whole, kLoading, job.device_types}, 1);
  }

  // Seconds of a card of the group that one unit takes.
  double Unit(size_t j, const Key& key, size_t group) const {
    const auto& [kind, stretch, whole, part, wishes] = key;
    if (!truth_.Admits(j, group)) return kNever;
    const auto& t = truth_.time(kind, group);
    const bool alone = whole || !truth_.groups()[group].shares;
    // Loading leaves a shared card to the others; alone it does not.
    if (part == kLoading) return alone ? t.load_s : 0;
    if (part >= 0) return truth_.Solo(j, group);
    if (alone) return t.batch_s;
    return t.batch_s * (pairs_ ? pairs_->Of(kind, group) : t.use[static_cast<size_t>(mix_)]);
  }

  void AddWork(size_t j, const Key& key, double units) {
    placement::BoundJob unit;
    unit.release_s = stretches_[std::get<1>(key)];
    unit.divisible = true;
    bool any = false, free = false;
    for (size_t g = 0; g < truth_.groups().size(); ++g) {
      const double p = Unit(j, key, g);
      any = any || std::isfinite(p);
      free = free || p <= 0;
      unit.p_s.push_back(p);
    }
    // A group where it is free takes it all: then it bounds nothing.
    if (!any || free) return;
    const double amount = units * sim_.jobs[j].job.gang;
    const auto [at, added] = work_.try_emplace(key, unit);
    if (added) {
      for (double& p : at->second.p_s) p = 0;
    }
    for (size_t g = 0; g < unit.p_s.size(); ++g) at->second.p_s[g] += unit.p_s[g] * amount;
  }

  const SimCase& sim_;
  const SimTruth& truth_;
  int mix_;
  const PairUse* pairs_;
  bool one_by_one_ = false;  // jobs that share with nobody
  std::vector<double> stretches_;
  std::map<Key, placement::BoundJob> work_;
  placement::BoundInstance instance_;
};

}  // namespace

Bounds LowerBounds(const SimCase& sim, const SimTruth& truth, size_t most_alone) {
  Bounds bounds;
  if (sim.jobs.empty() || sim.cluster.devices.empty()) return bounds;
  Nanos first = Nanos::Max();
  for (const auto& j : sim.jobs) first = std::min(first, j.job.arrival);
  // Every job takes at least its solo time after its arrival.
  placement::BoundInstance solo;
  for (const auto& g : truth.groups()) {
    solo.classes.push_back({static_cast<int>(g.cards.size()), 1.0});
  }
  for (size_t j = 0; j < sim.jobs.size(); ++j) {
    const auto& job = sim.jobs[j].job;
    placement::BoundJob line{ToSeconds(job.arrival - first), job.max_parallel > 1, job.gang, {}};
    double least = kNever;
    for (size_t g = 0; g < truth.groups().size(); ++g) {
      line.p_s.push_back(truth.Solo(j, g));
      least = std::min(least, line.p_s.back());
    }
    if (!std::isfinite(least)) continue;
    bounds.largest_job_s = std::max(bounds.largest_job_s, least);
    if (!line.divisible) {
      bounds.makespan_s = std::max(bounds.makespan_s, line.release_s + least);
    }
    solo.jobs.push_back(std::move(line));
  }
  bounds.mean_flow_s = placement::MeanFlowLowerBound(solo);
  // And the work must fit, by any mix of the cards' resources.
  std::optional<PairUse> pairs;
  if (sim.world->mixes() == 1) pairs.emplace(sim, truth);
  // The mix that binds most from the start is looked at again with later releases.
  std::optional<Programme> best;
  double greatest = -1;
  for (int mix = 0; mix < sim.world->mixes(); ++mix) {
    Programme programme(sim, truth, first, mix, pairs ? &*pairs : nullptr, most_alone);
    const double bound = placement::WorkLowerBound(programme.instance());
    if (bound <= greatest) continue;
    greatest = bound;
    best.emplace(std::move(programme));
  }
  bounds.resources_s = placement::MakespanLowerBound(best->instance(), kReleases);
  bounds.configurations_s = ConfigurationMakespan(sim, truth, first).value_or(0);
  bounds.makespan_s = std::max({bounds.makespan_s, bounds.resources_s, bounds.configurations_s});
  return bounds;
}

}  // namespace hase::apps

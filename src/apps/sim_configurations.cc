#include "apps/sim_configurations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "apps/sim_companies.h"
#include "placement/configuration_bound.h"

namespace hase::apps {
namespace {

using execution::SimCase;
using placement::Configuration;
constexpr double kNever = std::numeric_limits<double>::infinity();
// All pairs of kinds are tried on every type of card.
constexpr size_t kMostKinds = 256, kMostPairs = 1'000'000;

class Pricer final : public placement::ConfigurationPricer {
 public:
  Pricer(const SimCase& sim, const SimTruth& truth) : sim_(sim), truth_(truth) {
    for (size_t j = 0; j < sim.jobs.size(); ++j) AddJob(j);
    MakeGroups();
  }

  struct Part {
    size_t cls;
    double units;
  };
  const std::vector<double>& amounts() const { return amounts_; }
  const std::vector<double>& counts() const { return counts_; }
  // What the job needs of which class.
  std::span<const Part> parts(size_t job) const { return parts_[job]; }

  std::vector<Configuration> Alone() override {
    std::vector<Configuration> all;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t c = 0; c < classes_.size(); ++c) {
        if (const double rate = AloneRate(g, c); rate > 0) all.push_back({g, {{c, rate}}});
      }
    }
    return all;
  }

  double MostEarned(size_t group, std::span<const double> prices, double worth,
                    std::vector<Configuration>& found) override {
    Group& g = groups_[group];
    double most = 0;
    work_.assign(truth_.kinds(), {});
    load_.assign(truth_.kinds(), {});
    for (size_t c = 0; c < classes_.size(); ++c) {
      const double rate = AloneRate(group, c), value = rate * prices[c];
      most = std::max(most, value);
      if (classes_[c].whole) continue;
      Offer& offer = (classes_[c].loading ? load_ : work_)[classes_[c].kind];
      if (value > offer.value) offer = {value, rate, c};
    }
    if (!g.companies) return most;
    Tops tops(worth);
    most = std::max(most, Pairs(*g.companies, tops));
    most = More(group, most, tops);
    for (const Companies::Set& set : tops.Sets(truth_.kinds())) found.push_back(Column(group, set));
    return most;
  }

 private:
  struct Class {
    size_t kind;
    bool whole, loading;
    std::vector<std::string> wishes;
    size_t job;  // one of them
  };
  struct Group {
    size_t truth;  // its times
    Companies* companies = nullptr;
  };
  struct Offer {
    double value = 0;  // per second at full rate
    double rate = 0;
    size_t cls = 0;
  };
  // Sets that earn more than `worth`; the best of them, no kind in more than a few.
  class Tops {
   public:
    explicit Tops(double worth) : worth_(worth * (1 + 1e-7)) {}
    double worth() const { return worth_; }
    void Add(double value, const Companies::Set& set) {
      if (value > worth_) all_.emplace_back(value, set);
    }
    std::vector<Companies::Set> Sets(size_t kinds) {
      constexpr size_t kMost = 60;
      constexpr int kUses = 4;
      std::ranges::stable_sort(all_, std::greater{}, [](const auto& x) { return x.first; });
      std::vector<int> uses(kinds, 0);
      std::vector<Companies::Set> sets;
      for (const auto& [value, set] : all_) {
        bool fresh = true;
        for (size_t i = 0; i < set.size; ++i) fresh = fresh && uses[set.kind[i]] < kUses;
        if (!fresh) continue;
        for (size_t i = 0; i < set.size; ++i) ++uses[set.kind[i]];
        sets.push_back(set);
        if (sets.size() == kMost) break;
      }
      return sets;
    }

   private:
    double worth_;
    std::vector<std::pair<double, Companies::Set>> all_;
  };

  void AddJob(size_t j) {
    const auto& job = sim_.jobs[j].job;
    const bool whole = job.sharing == workload::Sharing::kNever;
    auto& parts = parts_.emplace_back();
    bool runs = false;
    for (size_t g = 0; g < truth_.groups().size(); ++g) runs = runs || truth_.Admits(j, g);
    if (!runs) return;
    for (const bool loading : {false, true}) {
      const auto key = std::tuple(truth_.kind_of(j), whole, loading, job.device_types);
      const auto [at, added] = index_.try_emplace(key, classes_.size());
      if (added) {
        classes_.push_back({truth_.kind_of(j), whole, loading, job.device_types, j});
        amounts_.push_back(0);
      }
      const double units = (loading ? 1.0 : truth_.batches(j)) * job.gang;
      amounts_[at->second] += units;
      parts.push_back({at->second, units});
    }
  }

  double AloneRate(size_t group, size_t c) const {
    const Class& cls = classes_[c];
    const size_t g = groups_[group].truth;
    if (!truth_.Admits(cls.job, g)) return 0;
    const auto& time = truth_.time(cls.kind, g);
    // Loading that takes no time costs nothing: it is priced at next to none.
    return 1 / std::max(cls.loading ? time.load_s : time.batch_s, 1e-9);
  }

  // Cards of one type and unlike speeds. What a card earns is a maximum of sums of terms
  // max(work · speed, loading), so convex in its speed: a card between the fastest and the slowest
  // earns at most what the two parts earn that it lies between.
  void MakeGroups() {
    std::map<std::pair<DeviceTypeId, bool>, std::vector<size_t>> by_type;
    for (size_t g = 0; g < truth_.groups().size(); ++g) {
      by_type[{truth_.groups()[g].type, truth_.groups()[g].shares}].push_back(g);
    }
    for (const auto& [key, members] : by_type) {
      Companies* companies = nullptr;
      if (key.second) {
        companies = companies_.emplace_back(MakeCompanies(members[0])).get();
      }
      const auto speed = [&](size_t g) { return SpeedAgainst(members[0], g); };
      bool alike = true;
      for (const size_t g : members) alike = alike && speed(g).has_value();
      if (!alike || members.size() < 3) {
        for (const size_t g : members) {
          counts_.push_back(static_cast<double>(truth_.groups()[g].cards.size()));
          groups_.push_back({g, companies});
        }
        continue;
      }
      const auto [slow, fast] =
          std::ranges::minmax_element(members, {}, [&](size_t g) { return *speed(g); });
      double slow_cards = 0, fast_cards = 0;
      for (const size_t g : members) {
        const auto cards = static_cast<double>(truth_.groups()[g].cards.size());
        const double part = (*speed(g) - *speed(*slow)) / (*speed(*fast) - *speed(*slow));
        fast_cards += part * cards;
        slow_cards += (1 - part) * cards;
      }
      counts_.insert(counts_.end(), {slow_cards, fast_cards});
      groups_.insert(groups_.end(), {{*slow, companies}, {*fast, companies}});
    }
  }

  // By how much faster g is than `base`, if that is the same for all kinds.
  std::optional<double> SpeedAgainst(size_t base, size_t g) const {
    double low = kNever, high = 0;
    for (size_t k = 0; k < truth_.kinds(); ++k) {
      const auto &a = truth_.time(k, base), &b = truth_.time(k, g);
      if (std::isfinite(a.batch_s) != std::isfinite(b.batch_s)) return std::nullopt;
      if (!std::isfinite(a.batch_s)) continue;
      if (std::abs(a.load_s - b.load_s) > 1e-9 * a.load_s) return std::nullopt;
      low = std::min(low, a.batch_s / b.batch_s);
      high = std::max(high, a.batch_s / b.batch_s);
    }
    if (high <= 0 || high > low * (1 + 1e-9)) return std::nullopt;
    return high;
  }

  std::unique_ptr<Companies> MakeCompanies(size_t group) const {
    std::vector<Companies::Kind> kinds(truth_.kinds(), {ModelId(0), 0, Bytes(0)});
    for (size_t j = 0; j < sim_.jobs.size(); ++j) {
      const auto& job = sim_.jobs[j];
      auto& kind = kinds[truth_.kind_of(j)];
      if (kind.batch > 0 || job.job.sharing == workload::Sharing::kNever) continue;
      const auto* estimate =
          sim_.estimator->Find(job.model, truth_.groups()[group].type, job.job.batch);
      if (!estimate || !std::isfinite(truth_.time(truth_.kind_of(j), group).batch_s)) continue;
      kind = {job.model, job.job.batch, estimate->memory()};
    }
    return std::make_unique<Companies>(sim_, truth_.groups()[group].cards[0], std::move(kinds));
  }

  double Earns(size_t kind, double rate) const {
    return std::max(work_[kind].value * rate, load_[kind].value);
  }

  double Pairs(const Companies& together, Tops& tops) const {
    const size_t n = together.size();
    double most = 0;
    for (size_t a = 0; a < n; ++a) {
      if (work_[a].value <= 0 && load_[a].value <= 0) continue;
      for (size_t b = a; b < n; ++b) {
        if (work_[b].value <= 0 && load_[b].value <= 0) continue;
        for (size_t c = 0; c < kSplits.size(); ++c) {
          const float rate_a = together.Pair(c, a, b);
          if (rate_a <= 0) continue;  // not admitted together
          const double value = Earns(a, rate_a) + Earns(b, together.Pair(kMirrored[c], b, a));
          if (value <= std::min(most, tops.worth())) continue;
          most = std::max(most, value);
          tops.Add(value, {{static_cast<uint16_t>(a), static_cast<uint16_t>(b)},
                           {static_cast<uint8_t>(kSplits[c].first),
                            static_cast<uint8_t>(kSplits[c].second)},
                           2});
        }
      }
    }
    return most;
  }

  // Three and four residents, by branch and bound: each is at most as fast as in its pairs. If too
  // many sets would have to be looked at, the value is given as that below which none was left out.
  double More(size_t group, double most, Tops& tops);
  bool Search(Companies& together, double threshold, double& most, Tops& tops);
  bool TryLeaf(Companies& together, const Companies::Set& set, double threshold, double& most,
               Tops& tops);
  Configuration Column(size_t group, const Companies::Set& set);

  const SimCase& sim_;
  const SimTruth& truth_;
  std::vector<Class> classes_;
  std::vector<double> amounts_;
  std::vector<std::vector<Part>> parts_;
  std::map<std::tuple<size_t, bool, bool, std::vector<std::string>>, size_t> index_;
  std::vector<Group> groups_;
  std::vector<double> counts_;
  std::vector<std::unique_ptr<Companies>> companies_;
  // Of one MostEarned().
  std::vector<Offer> work_, load_;              // by kind
  std::array<std::vector<double>, 3> most_by_;  // by quarters, by kind
  std::array<std::vector<uint16_t>, 3> order_;  // most first
  int budget_ = 0;
};

double Pricer::More(size_t group, double most, Tops& tops) {
  constexpr double kTolerance = 1.002, kWiden = 1.01;
  Companies& together = *groups_[group].companies;
  const size_t n = together.size();
  for (const int q : {1, 2}) {
    auto& by_kind = most_by_[static_cast<size_t>(q)];
    by_kind.assign(n, 0);
    for (size_t k = 0; k < n; ++k) {
      if (const float cap = together.Cap(q, k); cap > 0) by_kind[k] = Earns(k, cap);
    }
    auto& order = order_[static_cast<size_t>(q)];
    order.resize(n);
    std::iota(order.begin(), order.end(), uint16_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](uint16_t k) { return by_kind[k]; });
  }
  double threshold = std::max(std::max(most / 2, tops.worth()), 1e-300) * kTolerance;
  while (!Search(together, threshold, most, tops)) {
    threshold = std::max(threshold * kWiden, (threshold + most) / 2);
  }
  return std::max(most, threshold);
}

// False: the budget ran out.
bool Pricer::Search(Companies& together, double threshold, double& most, Tops& tops) {
  budget_ = 40'000;
  const auto& quarter = most_by_[1];
  const auto& half = most_by_[2];
  const auto& order = order_[1];
  const size_t n = order.size();
  for (const uint16_t a : order_[2]) {
    if (half[a] + 2 * quarter[order[0]] <= threshold) break;
    for (size_t i = 0; i < n; ++i) {
      if (half[a] + 2 * quarter[order[i]] <= threshold) break;
      for (size_t j = i; j < n; ++j) {
        if (half[a] + quarter[order[i]] + quarter[order[j]] <= threshold) break;
        if (!TryLeaf(together, {{a, order[i], order[j]}, {2, 1, 1}, 3}, threshold, most, tops)) {
          return false;
        }
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (4 * quarter[order[i]] <= threshold) break;
    for (size_t j = i; j < n; ++j) {
      if (quarter[order[i]] + 3 * quarter[order[j]] <= threshold) break;
      for (size_t k = j; k < n; ++k) {
        const double three = quarter[order[i]] + quarter[order[j]] + quarter[order[k]];
        if (three + quarter[order[k]] <= threshold) break;
        if (three > threshold && !TryLeaf(together, {{order[i], order[j], order[k]}, {1, 1, 1}, 3},
                                          threshold, most, tops)) {
          return false;
        }
        for (size_t l = k; l < n; ++l) {
          if (three + quarter[order[l]] <= threshold) break;
          if (!TryLeaf(together, {{order[i], order[j], order[k], order[l]}, {1, 1, 1, 1}, 4},
                       threshold, most, tops)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

bool Pricer::TryLeaf(Companies& together, const Companies::Set& set, double threshold, double& most,
                     Tops& tops) {
  if (--budget_ < 0) return false;
  {
    double bound = 0;
    for (size_t i = 0; i < set.size; ++i) {
      float rate = 1;
      for (size_t j = 0; j < set.size; ++j) {
        if (i == j) continue;
        rate = std::min(rate, together.Pair(SplitOf(set.quarters[i], set.quarters[j]), set.kind[i],
                                            set.kind[j]));
      }
      bound += rate > 0 ? Earns(set.kind[i], rate) : 0;
    }
    if (bound <= threshold) return true;
  }
  const size_t before = together.evaluated();
  const Companies::Rates& rates = together.Of(set);
  if (together.evaluated() > before) budget_ -= 10;
  if (rates[0] <= 0) return true;
  double value = 0;
  for (size_t i = 0; i < set.size; ++i) value += Earns(set.kind[i], rates[i]);
  most = std::max(most, value);
  tops.Add(value, set);
  return true;
}

Configuration Pricer::Column(size_t group, const Companies::Set& set) {
  Configuration column{group, {}};
  Companies& together = *groups_[group].companies;
  Companies::Rates rates{};
  if (set.size == 2) {
    const size_t split = SplitOf(set.quarters[0], set.quarters[1]);
    rates[0] = together.Pair(split, set.kind[0], set.kind[1]);
    rates[1] = together.Pair(kMirrored[split], set.kind[1], set.kind[0]);
  } else {
    rates = together.Of(set);
  }
  std::map<size_t, double> sum;
  for (size_t i = 0; i < set.size; ++i) {
    const Offer &work = work_[set.kind[i]], &load = load_[set.kind[i]];
    if (work.value * rates[i] >= load.value) {
      sum[work.cls] += work.rate * rates[i];
    } else {
      sum[load.cls] += load.rate;
    }
  }
  column.rates.assign(sum.begin(), sum.end());
  return column;
}

}  // namespace

std::optional<double> ConfigurationMakespan(const SimCase& sim, const SimTruth& truth,
                                            Nanos first) {
  std::map<DeviceTypeId, bool> shared;
  for (const auto& g : truth.groups()) {
    if (g.shares) shared[g.type] = true;
  }
  const size_t kinds = truth.kinds();
  if (sim.world->mixes() > 1) return std::nullopt;
  if (kinds > kMostKinds || shared.size() * kinds * kinds * 3 > kMostPairs) return std::nullopt;
  Pricer pricer(sim, truth);
  const auto bound = placement::BoundByConfigurations(pricer.amounts(), pricer.counts(), pricer);
  if (bound.prices.empty()) return std::nullopt;
  // The same prices bound what arrives at or after any moment.
  std::vector<std::pair<Nanos, double>> owed;
  for (size_t j = 0; j < sim.jobs.size(); ++j) {
    double cost = 0;
    for (const auto& part : pricer.parts(j)) cost += part.units * bound.prices[part.cls];
    owed.emplace_back(sim.jobs[j].job.arrival, cost);
  }
  std::ranges::sort(owed, std::greater{});
  double latest = 0, sum = 0;
  for (const auto& [arrival, cost] : owed) {
    sum += cost;
    latest = std::max(latest, ToSeconds(arrival - first) + sum);
  }
  return latest * (1 - 1e-6);
}

}  // namespace hase::apps

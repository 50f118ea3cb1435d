#include "placement/services/inss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace hase::placement {
namespace {

constexpr int kMostParts = 64;          // replicas of one service
constexpr double kLeastPart = 0.02;     // of its rate; smaller parts are not worth a process
constexpr size_t kSmallProblem = 2000;  // services × devices
constexpr int kMostSubsets = 2000;

// Devices of one type by free share, so that only a few are looked at.
class FreeIndex {
 public:
  explicit FreeIndex(const Ledger& ledger) {
    for (uint32_t i = 0; i < ledger.size(); ++i)
      if (ledger.Usable(DeviceId(i))) Insert(ledger, DeviceId(i));
  }
  void Insert(const Ledger& ledger, DeviceId d) { Of(ledger.Type(d)).emplace(ledger.Free(d), d); }
  void Erase(const Ledger& ledger, DeviceId d) { Of(ledger.Type(d)).erase({ledger.Free(d), d}); }

  // The `few` tightest devices with at least `units` free, and the `few` emptiest.
  void Candidates(DeviceTypeId type, int units, int few, std::vector<DeviceId>& out) const {
    out.clear();
    if (type.index() >= types_.size()) return;
    const auto& set = types_[type.index()];
    auto it = set.lower_bound({units, DeviceId(0)});
    for (int k = 0; k < few && it != set.end(); ++k, ++it) out.push_back(it->second);
    auto back = set.rbegin();
    for (int k = 0; k < few && back != set.rend(); ++k, ++back)
      if (std::find(out.begin(), out.end(), back->second) == out.end()) out.push_back(back->second);
  }
  std::optional<DeviceId> Any(DeviceTypeId type) const {
    if (type.index() >= types_.size() || types_[type.index()].empty()) return std::nullopt;
    return types_[type.index()].begin()->second;
  }
  size_t types() const { return types_.size(); }

 private:
  std::set<std::pair<int, DeviceId>>& Of(DeviceTypeId type) {
    if (type.index() >= types_.size()) types_.resize(type.index() + 1);
    return types_[type.index()];
  }
  std::vector<std::set<std::pair<int, DeviceId>>> types_;
};

struct Best {
  std::optional<DeviceId> device;
  Offer offer;
  double cost_per_rate = 0;
};

class Placer {
 public:
  Placer(Ledger& ledger, std::span<const double> worth, const InssOptions& options)
      : ledger_(ledger), worth_(worth), options_(options), index_(ledger) {}

  bool Place(size_t service, double rate) {
    double left = rate;
    for (int part = 0; part < kMostParts && left > rate * 1e-9; ++part) {
      const Best best = Search(service, left, rate * kLeastPart);
      if (!best.device) return false;
      index_.Erase(ledger_, *best.device);
      ledger_.Take(*best.device, best.offer);
      index_.Insert(ledger_, *best.device);
      left -= best.offer.rate_rps;
    }
    return left <= rate * 1e-9;
  }

 private:
  Best Search(size_t service, double rate, double least) {
    Best best;
    for (uint32_t t = 0; t < index_.types(); ++t) {
      const auto any = index_.Any(DeviceTypeId(t));
      if (!any) continue;
      const auto& steps = ledger_.table().Of(service, DeviceTypeId(t), ledger_.Mode(*any)).steps;
      int units = 1;
      for (const auto& step : steps)
        if (step.rate_rps >= rate) {
          units = std::max(1, Ledger::Units(step));
          break;
        }
      index_.Candidates(DeviceTypeId(t), units, options_.candidates, devices_);
      for (const DeviceId d : devices_) {
        if (const auto whole = ledger_.Least(d, service, rate))
          Consider(best, d, std::move(*whole));
        if (const auto part = ledger_.Densest(d, service, rate);
            part && part->rate_rps >= std::min(least, rate))
          Consider(best, d, std::move(*part));
      }
    }
    return best;
  }

  void Consider(Best& best, DeviceId d, Offer offer) {
    // A time-sliced resident takes the time it is busy for.
    const double whole = ledger_.Mode(d) == cluster::ShareMode::kMig ? 7 : 1000;
    const double share = ledger_.Mode(d) == cluster::ShareMode::kTimeSlice ? offer.added().load.busy
                                                                           : offer.units / whole;
    const double cost = share * worth_[ledger_.Type(d).index()] / offer.rate_rps;
    if (!best.device || cost < best.cost_per_rate * (1 - 1e-9)) best = {d, std::move(offer), cost};
  }

  Ledger& ledger_;
  std::span<const double> worth_;
  const InssOptions& options_;
  FreeIndex index_;
  std::vector<DeviceId> devices_;
};

// What a whole device of each type serves, as a geometric mean over services: the worth of its
// share where throughput is what counts.
std::vector<double> ThroughputWorth(const CapacityTable& table) {
  const auto& view = table.view();
  std::vector<double> worth(view.types.size(), 1.0);
  std::vector<bool> seen(view.types.size());
  for (const auto& device : view.devices) {
    const size_t t = device.type.index();
    if (seen[t]) continue;
    seen[t] = true;
    double sum = 0;
    int n = 0;
    for (size_t s = 0; s < table.services(); ++s) {
      const double rate = table.Of(s, device.type, DivisionMode(device.modes)).best_density();
      if (rate > 0) sum += std::log(rate / std::max(1e-9, table.Demand(s).rate_rps)), ++n;
    }
    worth[t] = n > 0 ? std::exp(sum / n) : 1;
  }
  return worth;
}

std::vector<double> PriceWorth(const ServiceView& view) {
  std::vector<double> worth(view.types.size(), 1.0);
  for (size_t i = 0; i < view.devices.size(); ++i)
    worth[view.devices[i].type.index()] =
        i < view.price_per_hour.size() && view.price_per_hour[i] > 0 ? view.price_per_hour[i] : 1;
  return worth;
}

// Services by the share of the best device they need, largest first.
std::vector<size_t> ByDemand(const CapacityTable& table, std::span<const double> worth,
                             const std::vector<bool>& out) {
  std::vector<double> demand(table.services(), 1e30);
  std::vector<bool> seen(table.view().types.size());
  for (const auto& device : table.view().devices) {
    if (seen[device.type.index()]) continue;
    seen[device.type.index()] = true;
    for (size_t s = 0; s < table.services(); ++s) {
      const double density = table.Of(s, device.type, DivisionMode(device.modes)).best_density();
      if (density > 0)
        demand[s] =
            std::min(demand[s], table.Demand(s).rate_rps / density * worth[device.type.index()]);
    }
  }
  std::vector<size_t> order;
  for (size_t s = 0; s < table.services(); ++s)
    if (!out[s]) order.push_back(s);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return demand[a] > demand[b]; });
  return order;
}

// Several orders around the first: neighbours in it are exchanged at random, seeded.
std::vector<std::vector<size_t>> Orders(const std::vector<size_t>& first, int count) {
  std::vector<std::vector<size_t>> orders{first};
  Rng rng(17);
  for (int k = 1; k < count; ++k) {
    auto order = first;
    std::vector<std::pair<double, size_t>> keyed;
    const double jitter = static_cast<double>(first.size()) * (k % 4 + 1) / 4;
    for (size_t i = 0; i < order.size(); ++i)
      keyed.emplace_back(static_cast<double>(i) + rng.Uniform(-jitter, jitter) / 2, order[i]);
    std::sort(keyed.begin(), keyed.end());
    for (size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
    orders.push_back(std::move(order));
  }
  return orders;
}

std::vector<double> Scaled(const CapacityTable& table, double factor) {
  std::vector<double> rates;
  for (size_t s = 0; s < table.services(); ++s) rates.push_back(table.Demand(s).rate_rps * factor);
  return rates;
}

// A plan under construction: fresh ledgers of the same cluster and options.
struct Problem {
  const CapacityTable& table;
  const InssOptions& options;
  std::vector<double> worth;
  std::vector<std::vector<size_t>> orders;
  std::vector<bool> allowed;  // by device

  std::unique_ptr<Ledger> Try(std::span<const double> rates, const std::vector<size_t>& order) {
    auto ledger = std::make_unique<Ledger>(table, Ledger::Limits{options.shadow, 16});
    for (uint32_t i = 0; i < allowed.size(); ++i)
      if (!allowed[i]) ledger->Allow(DeviceId(i), false);
    if (PlaceAll(*ledger, rates, order, worth, options)) return nullptr;
    return ledger;
  }
  std::unique_ptr<Ledger> TryAnyOrder(std::span<const double> rates) {
    for (const auto& order : orders)
      if (auto ledger = Try(rates, order)) return ledger;
    return nullptr;
  }
};

// The greatest common factor that one order reaches above `from`, with its ledger.
std::pair<double, std::unique_ptr<Ledger>> Grow(Problem& problem, const std::vector<size_t>& order,
                                                double from) {
  const auto attempt = [&](double factor) {
    return problem.Try(Scaled(problem.table, factor), order);
  };
  const double precision = problem.options.precision;
  double low = from > 0 ? from * (1 + precision) : 1;
  auto best = attempt(low);
  double high = low;
  if (!best && from > 0) return {from, nullptr};
  if (best) {
    do {
      high = low * 2;
      auto more = attempt(high);
      if (!more) break;
      best = std::move(more);
      low = high;
    } while (low < 1e9);
  } else {
    do {
      high = low;
      low /= 2;
      best = attempt(low);
    } while (!best && low > 1e-6);
  }
  if (!best) return {0, nullptr};
  while (high / low > 1 + precision) {
    const double middle = std::sqrt(low * high);
    if (auto more = attempt(middle)) {
      best = std::move(more);
      low = middle;
    } else {
      high = middle;
    }
  }
  return {low, std::move(best)};
}

std::unique_ptr<Ledger> MaxThroughput(Problem& problem) {
  double factor = 0;
  std::unique_ptr<Ledger> best;
  for (const auto& order : problem.orders) {
    auto [reached, ledger] = Grow(problem, order, factor);
    if (ledger) factor = reached, best = std::move(ledger);
  }
  return best;
}

double Price(const ServiceView& view, size_t device) {
  return device < view.price_per_hour.size() ? view.price_per_hour[device] : 1;
}

// All sets of devices that differ in how many of each (type, price) they have, cheapest first.
std::vector<std::pair<double, std::vector<bool>>> Subsets(const ServiceView& view) {
  std::map<std::pair<uint32_t, double>, std::vector<size_t>> groups;
  for (size_t i = 0; i < view.devices.size(); ++i)
    groups[{view.devices[i].type.index(), Price(view, i)}].push_back(i);
  double count = 1;
  for (const auto& [key, members] : groups) count *= static_cast<double>(members.size() + 1);
  if (count > kMostSubsets) return {};
  std::vector<std::pair<double, std::vector<bool>>> sets{
      {0.0, std::vector<bool>(view.devices.size(), false)}};
  for (const auto& [key, members] : groups) {
    const size_t before = sets.size();
    for (size_t taken = 1; taken <= members.size(); ++taken)
      for (size_t s = 0; s < before; ++s) {
        auto set = sets[s];
        for (size_t k = 0; k < taken; ++k) set.second[members[k]] = true;
        set.first += static_cast<double>(taken) * key.second;
        sets.push_back(std::move(set));
      }
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return sets;
}

std::unique_ptr<Ledger> MinCost(Problem& problem, const ServiceView& view) {
  const auto rates = Scaled(problem.table, 1);
  for (const auto& [price, allowed] : Subsets(view)) {
    problem.allowed = allowed;
    if (auto ledger = problem.TryAnyOrder(rates)) return ledger;
  }
  problem.allowed.assign(view.devices.size(), true);
  auto best = problem.TryAnyOrder(rates);
  if (!best || view.devices.size() <= 16) return best;
  // Large clusters: give up devices, dearest per share in use first, in halving portions.
  std::vector<size_t> in_use;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    if (best->On(DeviceId(static_cast<uint32_t>(i))).empty())
      problem.allowed[i] = false;
    else
      in_use.push_back(i);
  }
  for (size_t portion = in_use.size() / 2; portion > 0; portion /= 2) {
    std::stable_sort(in_use.begin(), in_use.end(), [&](size_t a, size_t b) {
      const auto spare = [&](size_t i) {
        return Price(view, i) * (best->Free(DeviceId(static_cast<uint32_t>(i))) + 1);
      };
      return spare(a) > spare(b);
    });
    auto allowed = problem.allowed;
    for (size_t k = 0; k < portion && k < in_use.size(); ++k) problem.allowed[in_use[k]] = false;
    if (auto cheaper = problem.TryAnyOrder(rates)) {
      best = std::move(cheaper);
      in_use.erase(in_use.begin(), in_use.begin() + static_cast<ptrdiff_t>(portion));
    } else {
      problem.allowed = allowed;
    }
  }
  return best;
}

}  // namespace

Result<ServiceObjective> ParseServiceObjective(std::string_view text) {
  if (text == "max-throughput") return ServiceObjective::kMaxThroughput;
  if (text == "min-cost") return ServiceObjective::kMinCost;
  if (text == "given-rates") return ServiceObjective::kGivenRates;
  return Usage(fmt::format("unknown objective '{}' (max-throughput, min-cost, given-rates)", text));
}

std::optional<ServiceReject> WhyNever(const CapacityTable& table, size_t service) {
  const ServiceDemand& demand = table.Demand(service);
  const auto& view = table.view();
  double fastest_ms = 1e300, least_memory = 1e300, memory_there = 0;
  std::string unknown;
  bool fits = false;
  std::vector<bool> seen(view.types.size());
  for (const DeviceState& device : view.devices) {
    if (seen[device.type.index()]) continue;
    seen[device.type.index()] = true;
    const auto* one = table.model().Find(demand.model, device.type, 1);
    if (one == nullptr) {
      unknown = table.model().estimator().WhyNot(demand.model, device.type, 1);
      continue;
    }
    const auto law = table.model().Law(demand.model, device.type);
    const double alone = latency::RunSeconds(one->terms, law, 0, {});
    least_memory = std::min(least_memory, static_cast<double>(one->memory.value()));
    memory_there = std::max(memory_there, static_cast<double>(device.memory_total.value()));
    if (one->memory > device.memory_total) continue;
    fits = true;
    fastest_ms = std::min(fastest_ms, 1e3 * alone * device.speed_factor);
    if (table.Of(service, device.type, DivisionMode(device.modes)).whole_rate() > 0)
      return std::nullopt;
  }
  if (least_memory > 1e299)
    return ServiceReject{demand.id, "no estimate on any device type: " + unknown, ""};
  if (!fits)
    return ServiceReject{demand.id,
                         fmt::format("needs {:.2f} GiB, the largest device has {:.2f} GiB",
                                     least_memory / (1 << 30), memory_there / (1 << 30)),
                         fmt::format("a device with {:.2f} GiB", least_memory / (1 << 30))};
  // A queue at vanishing load still takes a run, and a fresh arrival may meet one that runs.
  return ServiceReject{
      demand.id,
      fmt::format("objective of {:g} ms: one run alone on the fastest device takes {:.3g} ms",
                  demand.slo_ms, fastest_ms),
      fmt::format("slo_ms: {:.4g}", std::ceil(fastest_ms * 1.25 * 10) / 10)};
}

std::optional<size_t> PlaceAll(Ledger& ledger, std::span<const double> rates,
                               std::span<const size_t> order, std::span<const double> type_worth,
                               const InssOptions& options) {
  Placer placer(ledger, type_worth, options);
  for (const size_t service : order) {
    if (!placer.Place(service, rates[service])) return service;
  }
  return std::nullopt;
}

ServicePlan InssPolicy::Decide(const ServiceView& view) {
  std::optional<latency::ServiceModel> own;
  if (view.model == nullptr) own.emplace(*view.estimator, view.types);
  const latency::ServiceModel& model = own ? *own : *view.model;
  const CapacityTable table(view, model, options_.margin);
  ServicePlan plan;
  std::vector<bool> out(table.services(), false);
  for (size_t s = 0; s < table.services(); ++s)
    if (auto never = WhyNever(table, s)) {
      out[s] = true;
      plan.rejected.push_back(std::move(*never));
    }
  const bool cheap = options_.objective == ServiceObjective::kMinCost;
  Problem problem{table, options_, cheap ? PriceWorth(view) : ThroughputWorth(table), {}, {}};
  problem.allowed.assign(view.devices.size(), true);
  const auto first = ByDemand(table, problem.worth, out);
  const bool small = table.services() * view.devices.size() <= kSmallProblem;
  problem.orders = Orders(first, small ? options_.orders : 1);
  if (first.empty()) return plan;

  std::unique_ptr<Ledger> ledger;
  if (options_.objective == ServiceObjective::kMaxThroughput) {
    ledger = MaxThroughput(problem);
  } else {
    ledger = cheap ? MinCost(problem, view) : problem.TryAnyOrder(Scaled(table, 1));
    if (!ledger) {
      // Not at these rates: say how much of them would fit.
      problem.allowed.assign(view.devices.size(), true);
      auto [factor, most] = Grow(problem, first, 0);
      for (const size_t s : first)
        plan.rejected.push_back(
            {table.Demand(s).id, "the devices together do not carry these rates",
             fmt::format("rate_rps: {:.4g}", table.Demand(s).rate_rps * factor)});
      return plan;
    }
  }
  if (!ledger) return plan;
  ledger->DealSpare();
  plan.instances = ledger->Instances();
  return plan;
}

}  // namespace hase::placement

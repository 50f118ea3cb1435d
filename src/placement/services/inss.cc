#include "placement/services/inss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "base/rng.h"
#include "placement/services/placer.h"
#include "placement/services/refusal.h"

namespace hase::placement {
namespace {

constexpr size_t kSmallProblem = 2000;  // services × devices
constexpr int kMostSubsets = 2000;

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
    worth[view.devices[i].type.index()] = view.PriceOf(i);
  return worth;
}

// Services by the share of the best device they need, largest first.
std::vector<size_t> ByDemand(const CapacityTable& table, std::span<const double> rates,
                             std::span<const double> worth, const std::vector<bool>& out) {
  std::vector<double> demand(table.services(), 1e30);
  std::vector<bool> seen(table.view().types.size());
  for (const auto& device : table.view().devices) {
    if (seen[device.type.index()]) continue;
    seen[device.type.index()] = true;
    for (size_t s = 0; s < table.services(); ++s) {
      const double density = table.Of(s, device.type, DivisionMode(device.modes)).best_density();
      if (density > 0)
        demand[s] = std::min(demand[s], rates[s] / density * worth[device.type.index()]);
    }
  }
  std::vector<size_t> order;
  for (size_t s = 0; s < table.services(); ++s)
    if (!out[s]) order.push_back(s);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return demand[a] > demand[b]; });
  return order;
}

// One way to try: services in this order, parts with this much room for later neighbours.
struct Order {
  std::vector<size_t> services;
  double slack = 0.1;
};
constexpr double kSlacks[] = {0.1, 0.0, 0.25};

// Several orders around the first: neighbours in it are exchanged at random, seeded.
std::vector<Order> Orders(const std::vector<size_t>& first, int count) {
  std::vector<Order> orders{{first, kSlacks[0]}};
  Rng rng(17);
  for (int k = 1; k < count; ++k) {
    auto order = first;
    std::vector<std::pair<double, size_t>> keyed;
    const double jitter = static_cast<double>(first.size()) * (k % 4 + 1) / 4;
    for (size_t i = 0; i < order.size(); ++i)
      keyed.emplace_back(static_cast<double>(i) + rng.Uniform(-jitter, jitter) / 2, order[i]);
    std::sort(keyed.begin(), keyed.end());
    for (size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
    orders.push_back({std::move(order), kSlacks[static_cast<size_t>(k) % std::size(kSlacks)]});
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
  std::vector<Order> orders;
  std::vector<bool> allowed;  // by device

  std::unique_ptr<Ledger> Try(std::span<const double> rates, const Order& order) {
    auto ledger = std::make_unique<Ledger>(table, Ledger::Limits{options.shadow, 16, order.slack});
    for (uint32_t i = 0; i < allowed.size(); ++i)
      if (!allowed[i]) ledger->Allow(DeviceId(i), false);
    Placer placer(*ledger, worth, options.candidates);
    for (const size_t service : order.services)
      if (!placer.Place(service, rates[service])) return nullptr;
    return ledger;
  }
  std::unique_ptr<Ledger> TryAnyOrder(std::span<const double> rates) {
    for (const auto& order : orders)
      if (auto ledger = Try(rates, order)) return ledger;
    return nullptr;
  }
};

// The greatest common factor that one order reaches above `from`, with its ledger.
std::pair<double, std::unique_ptr<Ledger>> Grow(Problem& problem, const Order& order, double from) {
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

// All sets of devices that differ in how many of each (type, price) they have, cheapest first.
std::vector<std::pair<double, std::vector<bool>>> Subsets(const ServiceView& view,
                                                          const std::vector<bool>& allowed) {
  std::map<std::pair<uint32_t, double>, std::vector<size_t>> groups;
  for (size_t i = 0; i < view.devices.size(); ++i)
    if (allowed[i]) groups[{view.devices[i].type.index(), view.PriceOf(i)}].push_back(i);
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

// Cards faster than their type's profile, and time slices loaded above kMaxUtilisation together,
// carry somewhat more than a type's capacity says.
constexpr double kMoreThanCapacity = 1.25;

// By service: the least number of whole devices of each type that could carry it, company, share
// steps and memory left out.
class LeastDevices {
 public:
  LeastDevices(const CapacityTable& table, std::span<const double> rates) : view_(table.view()) {
    for (const auto& device : view_.devices) {
      const size_t t = device.type.index();
      if (t >= need_.size()) need_.resize(t + 1);
      if (!need_[t].empty()) continue;
      for (size_t s = 0; s < rates.size(); ++s) {
        const double density = table.Of(s, device.type, DivisionMode(device.modes)).best_density();
        need_[t].push_back(rates[s] <= 0 ? 0 : density > 0 ? rates[s] / density : 1e30);
      }
    }
  }
  // False: these devices cannot carry the rates, whatever the plan.
  bool May(const std::vector<bool>& allowed) const {
    std::vector<bool> has(need_.size());
    double count = 0;
    for (size_t i = 0; i < allowed.size(); ++i)
      if (allowed[i]) has[view_.devices[i].type.index()] = true, ++count;
    double least = 0;
    const size_t services = need_.empty() ? 0 : need_.front().size();
    for (size_t s = 0; s < services; ++s) {
      double best = 1e30;
      for (size_t t = 0; t < need_.size(); ++t)
        if (has[t]) best = std::min(best, need_[t][s]);
      least += best;
    }
    return least <= count * kMoreThanCapacity;
  }

 private:
  const ServiceView& view_;
  std::vector<std::vector<double>> need_;  // by type, service
};

std::unique_ptr<Ledger> MinCost(Problem& problem, std::span<const double> rates) {
  const ServiceView& view = problem.table.view();
  const std::vector<bool> all = problem.allowed;
  const LeastDevices least(problem.table, rates);
  for (const auto& [price, allowed] : Subsets(view, all)) {
    if (!least.May(allowed)) continue;
    problem.allowed = allowed;
    if (auto ledger = problem.TryAnyOrder(rates)) return ledger;
  }
  problem.allowed = all;
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
        return view.PriceOf(i) * (best->Free(DeviceId(static_cast<uint32_t>(i))) + 1);
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

std::unique_ptr<Ledger> CheapestLedger(const CapacityTable& table, std::span<const double> rates,
                                       const std::vector<bool>& allowed,
                                       const InssOptions& options) {
  Problem problem{table, options, PriceWorth(table.view()), {}, allowed};
  std::vector<bool> idle(rates.size());
  for (size_t s = 0; s < rates.size(); ++s) idle[s] = rates[s] <= 0;
  problem.orders = Orders(ByDemand(table, rates, problem.worth, idle), options.orders);
  return MinCost(problem, rates);
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
  const auto rates = Scaled(table, 1);
  const auto first = ByDemand(table, rates, problem.worth, out);
  const bool small = table.services() * view.devices.size() <= kSmallProblem;
  problem.orders = Orders(first, small ? options_.orders : 1);
  if (first.empty()) return plan;

  std::unique_ptr<Ledger> ledger;
  if (options_.objective == ServiceObjective::kMaxThroughput) {
    ledger = MaxThroughput(problem);
  } else {
    ledger = cheap ? MinCost(problem, rates) : problem.TryAnyOrder(rates);
    if (!ledger) {
      // Not at these rates: say how much of them would fit.
      problem.allowed.assign(view.devices.size(), true);
      auto [factor, most] = Grow(problem, problem.orders.front(), 0);
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

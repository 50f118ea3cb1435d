// igniter: interference-aware provisioning at least cost (Xu et al., "iGniter: interference-aware
// GPU resource provisioning for predictable DNN inference in the cloud", IEEE TPDS 34(3), 2023;
// arXiv 2211.01713). Workloads by the share they need alone, largest first; each goes to the device
// in use on which all residents together need the least additional share, found by growing shares
// in steps of 2.5 % until everybody's objective holds beside the others; if none, a new device is
// opened. The device type is chosen as a whole: each type is tried first, the cheapest result wins
// (their prototype picks one instance type); where its devices run out, the next in price follows.
// A workload above one device's rate is cut into equal parts beforehand (they leave it out).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "placement/services/rival_plans.h"
#include "placement/services/rivals.h"

namespace hase::placement {
namespace {

struct Part {
  size_t service;
  double rate;
};

class Provisioning {
 public:
  Provisioning(const CapacityTable& table, std::vector<size_t> devices)
      : table_(table), order_(std::move(devices)), ledger_(table, {false, 16, 0}) {}

  bool Place(const Part& part) {
    std::optional<Allocation> best;
    for (size_t k = 0; k < opened_; ++k)
      if (auto a = Allocate(order_[k], part); a && (!best || a->added < best->added))
        best = std::move(a);
    while (!best && opened_ < order_.size()) best = Allocate(order_[opened_++], part);
    if (!best) return false;
    Apply(*best);
    return true;
  }

  std::vector<Instance> Instances() const { return ledger_.Instances(); }
  double Cost() const {
    double sum = 0;
    for (uint32_t d = 0; d < ledger_.size(); ++d)
      if (!ledger_.On(DeviceId(d)).empty()) sum += table_.view().PriceOf(d);
    return sum;
  }

 private:
  struct Allocation {
    DeviceId device;
    std::vector<Placed> residents;  // the new one last
    int added = 0;                  // units of share
  };

  // Their alloc_gpus: from the least share alone, grow whoever misses its objective.
  std::optional<Allocation> Allocate(size_t index, const Part& part) const {
    const DeviceId device(static_cast<uint32_t>(index));
    const auto type = ledger_.Type(device);
    const auto mode = ledger_.Mode(device);
    Allocation a{device, ledger_.On(device), 0};
    const Capacity& capacity = table_.Of(part.service, type, mode);
    Placed mine;
    mine.service = static_cast<uint32_t>(part.service);
    mine.capacity = &capacity;
    mine.rate_rps = part.rate;
    while (mine.step < capacity.steps.size() && capacity.steps[mine.step].rate_rps < part.rate)
      ++mine.step;
    if (mine.step == capacity.steps.size()) return std::nullopt;
    mine.choice = capacity.Best(mine.share(), 1, table_.SloSeconds(part.service));
    a.residents.push_back(mine);
    int free = ledger_.Free(device) - Ledger::Units(mine.share());
    a.added = Ledger::Units(mine.share());
    for (bool changed = true; changed && free >= 0;) {
      changed = false;
      for (size_t i = 0; i < a.residents.size(); ++i) {
        if (Holds(a.residents, i, device)) continue;
        Placed& r = a.residents[i];
        if (r.step + 1 >= r.capacity->steps.size()) return std::nullopt;
        const int more = Ledger::Units(r.capacity->steps[r.step + 1]) - Ledger::Units(r.share());
        ++r.step;
        free -= more;
        a.added += more;
        changed = true;
      }
    }
    if (free < 0 || !MemoryFits(a.residents, device)) return std::nullopt;
    return a;
  }

  bool Holds(std::vector<Placed>& residents, size_t i, DeviceId device) const {
    latency::Neighbourhood others;
    for (size_t j = 0; j < residents.size(); ++j)
      if (j != i && residents[j].choice.option != nullptr)
        others.Add(residents[j].choice.option->LoadAt(residents[j].rate_rps));
    Placed& r = residents[i];
    const DeviceState& card = table_.view().devices[device.index()];
    const auto law = table_.model().Law(table_.Demand(r.service).model, card.type);
    const auto own = r.choice.option != nullptr ? r.choice.option->busy : latency::Neighbour();
    const double factor =
        card.speed_factor * latency::Interference(own, law, r.share().grant.mode, others);
    const Choice choice = r.capacity->Best(r.share(), factor, table_.SloSeconds(r.service));
    if (choice.option == nullptr || choice.rate_rps < r.rate_rps - 1e-9) return false;
    r.choice = choice;
    return true;
  }

  bool MemoryFits(const std::vector<Placed>& residents, DeviceId device) const {
    Bytes sum;
    for (const Placed& r : residents) sum += r.choice.option->memory;
    return sum <= table_.view().devices[device.index()].memory_total;
  }

  void Apply(const Allocation& a) {
    while (!ledger_.On(a.device).empty()) ledger_.Remove(a.device, 0);
    for (const Placed& r : a.residents) ledger_.Put(a.device, r);
  }

  const CapacityTable& table_;
  std::vector<size_t> order_;
  size_t opened_ = 0;
  Ledger ledger_;
};

// All usable devices, those of `first` before the rest, the rest by price.
std::vector<size_t> DeviceOrder(const ServiceView& view, DeviceTypeId first) {
  std::vector<size_t> order;
  for (size_t d = 0; d < view.devices.size(); ++d)
    if (view.devices[d].up) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool fa = view.devices[a].type == first, fb = view.devices[b].type == first;
    if (fa != fb) return fa;
    return view.PriceOf(a) < view.PriceOf(b);
  });
  return order;
}

std::optional<std::vector<Instance>> Provision(const RivalProblem& problem,
                                               std::span<const double> rates) {
  const auto& table = problem.table();
  const auto& view = table.view();
  std::optional<std::vector<Instance>> best;
  double best_cost = 0;
  std::vector<bool> tried(view.types.size());
  for (const auto& device : view.devices) {
    if (tried[device.type.index()]) continue;
    tried[device.type.index()] = true;
    Provisioning provisioning(table, DeviceOrder(view, device.type));
    std::vector<std::pair<int, Part>> parts;
    bool placed = true;
    for (const size_t s : problem.services()) {
      const Capacity& capacity = table.Of(s, device.type, DivisionMode(device.modes));
      const double whole = capacity.whole_rate();
      if (whole <= 0) placed = false;
      if (!placed) break;
      const int pieces = std::max(1, static_cast<int>(std::ceil(rates[s] / whole)));
      const double rate = rates[s] / pieces;
      int units = 0;
      for (const auto& step : capacity.steps)
        if (units == 0 && step.rate_rps >= rate) units = Ledger::Units(step);
      for (int k = 0; k < pieces; ++k) parts.push_back({units, {s, rate}});
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t k = 0; placed && k < parts.size(); ++k)
      placed = provisioning.Place(parts[k].second);
    if (!placed || (best && provisioning.Cost() >= best_cost)) continue;
    best = provisioning.Instances();
    best_cost = provisioning.Cost();
  }
  return best;
}

}  // namespace

ServicePlan IgniterPolicy::Decide(const ServiceView& view) {
  const RivalProblem problem(view);
  ServicePlan plan;
  plan.rejected = problem.rejected();
  const Attempt attempt = [&](std::span<const double> rates) { return Provision(problem, rates); };
  if (objective_ == ServiceObjective::kMaxThroughput) {
    plan.instances = GreatestRates(problem.table(), attempt);
  } else {
    std::vector<double> rates;
    for (const auto& d : view.services) rates.push_back(d.rate_rps);
    if (auto instances = attempt(rates)) plan.instances = std::move(*instances);
  }
  return plan;
}

}  // namespace hase::placement

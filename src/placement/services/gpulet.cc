// gpulet: elastic partitioning (Choi et al., "Serving heterogeneous machine learning models on
// multi-GPU servers with spatio-temporal sharing", USENIX ATC 2022; arXiv 2109.01611). Every device
// is split into at most two gpulets of 20/80, 40/60, 50/50 or left whole. For each model, by rate:
// the ideal size is the smaller of its most efficient size (knee of rate over size) and the size
// its rate needs; the smallest free gpulet of at least that size is taken (a whole device is split
// if that leaves more), checked with pairwise interference of the two halves. A model that fits
// beside another inside a gpulet shares it in time. Rates above one gpulet take several.
//
// Left out: the regression of their interference model (the share law's interference is used).
#include <algorithm>
#include <array>

#include "placement/services/rival_plans.h"
#include "placement/services/rivals.h"

namespace hase::placement {
namespace {

using cluster::ShareMode;
constexpr std::array<int, 6> kSizes = {200, 400, 500, 600, 800, 1000};

struct Tenant {
  size_t service;
  double rate;
  Choice choice;
};
struct Gpulet {
  size_t device;
  int size;  // milli
  std::vector<Tenant> tenants;
};

class Partitioning {
 public:
  explicit Partitioning(const RivalProblem& problem) : table_(problem.table()) {
    for (const size_t d : problem.DevicesBySpeed()) gpulets_.push_back({d, 1000, {}});
  }

  bool Place(size_t service, double rate) {
    for (int part = 0; part < 64 && rate > 1e-9; ++part) {
      const double served = PlaceOne(service, rate);
      if (served <= 0) return false;
      rate -= served;
    }
    return rate <= 1e-9;
  }

  std::vector<Instance> Instances() const {
    std::vector<Instance> instances;
    for (size_t g = 0; g < gpulets_.size(); ++g)
      for (const Tenant& t : gpulets_[g].tenants) {
        Instance i;
        i.service = table_.Demand(t.service).id;
        i.device = DeviceId(static_cast<uint32_t>(gpulets_[g].device));
        i.share = MilliShare(gpulets_[g].size);
        i.mode = ModeOf(gpulets_[g]);
        i.batch = t.choice.batch;
        i.rate_rps = t.rate;
        i.slot = static_cast<int>(g);
        instances.push_back(i);
      }
    return instances;
  }

 private:
  const DeviceState& State(const Gpulet& g) const { return table_.view().devices[g.device]; }
  ShareMode ModeOf(const Gpulet& g) const {
    const auto mode = DivisionMode(State(g).modes);
    if (g.size == 1000 && mode != ShareMode::kMps)
      return g.tenants.size() > 1 ? ShareMode::kTimeSlice : ShareMode::kExclusive;
    return mode;
  }
  const ShareStep* Step(size_t service, const Gpulet& g, int size) const {
    const auto& capacity = table_.Of(service, State(g).type, DivisionMode(State(g).modes));
    const ShareStep* best = nullptr;
    for (const auto& step : capacity.steps)
      if (step.grant.share.value() <= size) best = &step;
    return best;
  }

  // The least of the sizes whose rate per size is within 5 % of the best: the knee; and the least
  // that serves the rate.
  int IdealSize(size_t service, const Gpulet& g, double rate) const {
    double density = 0;
    for (const int size : kSizes)
      if (const ShareStep* step = Step(service, g, size))
        density = std::max(density, step->rate_rps / size);
    int efficient = 1000, needed = 1000;
    for (auto size = kSizes.rbegin(); size != kSizes.rend(); ++size) {
      const ShareStep* step = Step(service, g, *size);
      if (step == nullptr) continue;
      if (density > 0 && step->rate_rps / *size >= 0.95 * density) efficient = *size;
      if (step->rate_rps >= rate) needed = *size;
    }
    return std::min(efficient, needed);
  }

  // Interference of the other half (any of its tenants may run), and of time sharing inside.
  double Factor(const Gpulet& g, size_t service, const Choice& choice, double busy_inside) const {
    latency::Neighbourhood others;
    for (const Gpulet& other : gpulets_)
      if (&other != &g && other.device == g.device)
        for (const Tenant& t : other.tenants) others.Add(t.choice.option->LoadAt(t.rate));
    const auto law = table_.model().Law(table_.Demand(service).model, State(g).type);
    return State(g).speed_factor * (1 + busy_inside) *
           latency::Interference(choice.option->busy, law, ShareMode::kMps, others);
  }

  Choice Serve(const Gpulet& g, size_t service, int size, double busy_inside) const {
    const ShareStep* step = Step(service, g, size);
    if (step == nullptr) return {};
    const auto& capacity = table_.Of(service, State(g).type, DivisionMode(State(g).modes));
    const double slo = table_.SloSeconds(service);
    const Choice alone = capacity.Best(*step, 1, slo);
    if (alone.option == nullptr) return {};
    return capacity.Best(*step, Factor(g, service, alone, busy_inside), slo);
  }

  bool MemoryFits(const Gpulet& g, const Choice& choice) const {
    Bytes sum = choice.option->memory;
    for (const Gpulet& other : gpulets_)
      if (other.device == g.device)
        for (const Tenant& t : other.tenants) sum += t.choice.option->memory;
    return sum <= State(g).memory_total;
  }

  // Every tenant of the device still serves its rate.
  bool NeighboursStand(size_t device) const {
    for (const Gpulet& g : gpulets_) {
      if (g.device != device) continue;
      for (const Tenant& t : g.tenants) {
        double busy = 0;
        for (const Tenant& o : g.tenants)
          if (&o != &t) busy += BatchQueue::BusyFraction(o.choice.option->server, o.rate);
        if (Serve(g, t.service, g.size, busy).rate_rps < t.rate * (1 - 1e-9)) return false;
      }
    }
    return true;
  }

  // Adds the tenant if all stand with it.
  bool Admit(Gpulet& g, size_t service, double rate, const Choice& choice) {
    if (!MemoryFits(g, choice)) return false;
    g.tenants.push_back({service, rate, choice});
    if (NeighboursStand(g.device)) return true;
    g.tenants.pop_back();
    return false;
  }

  bool ShareInTime(size_t service, double rate) {
    for (Gpulet& g : gpulets_) {
      if (g.tenants.empty()) continue;
      double busy = 0;
      for (const Tenant& o : g.tenants)
        busy += BatchQueue::BusyFraction(o.choice.option->server, o.rate);
      const Choice choice = Serve(g, service, g.size, busy);
      if (choice.option != nullptr && choice.rate_rps >= rate && Admit(g, service, rate, choice))
        return true;
    }
    return false;
  }

  double PlaceOne(size_t service, double rate) {
    if (ShareInTime(service, rate)) return rate;
    // Best fit: the smallest free gpulet that is large enough, else the largest there is.
    std::vector<size_t> free;
    for (size_t g = 0; g < gpulets_.size(); ++g)
      if (gpulets_[g].tenants.empty()) free.push_back(g);
    std::stable_sort(free.begin(), free.end(),
                     [&](size_t a, size_t b) { return gpulets_[a].size < gpulets_[b].size; });
    for (const bool enough : {true, false}) {
      for (size_t k = 0; k < free.size(); ++k) {
        const size_t g = enough ? free[k] : free[free.size() - 1 - k];
        const int ideal = IdealSize(service, gpulets_[g], rate);
        if (enough && gpulets_[g].size < ideal) continue;
        if (const double served = Split(g, service, rate, ideal); served > 0) return served;
      }
    }
    return 0;
  }

  double Split(size_t g, size_t service, double rate, int ideal) {
    const bool split = gpulets_[g].size == 1000 && ideal < 1000 &&
                       DivisionMode(State(gpulets_[g]).modes) == ShareMode::kMps;
    if (split) {
      gpulets_[g].size = ideal;
      gpulets_.push_back({gpulets_[g].device, 1000 - ideal, {}});
    }
    Gpulet& mine = gpulets_[g];
    const Choice choice = Serve(mine, service, mine.size, 0);
    const double served = std::min(rate, choice.rate_rps);
    if (choice.option != nullptr && served > 0 && Admit(mine, service, served, choice))
      return served;
    if (split) {
      gpulets_.pop_back();
      gpulets_[g].size = 1000;
    }
    return 0;
  }

  const CapacityTable& table_;
  std::vector<Gpulet> gpulets_;
};

}  // namespace

ServicePlan GpuletPolicy::Decide(const ServiceView& view) {
  const RivalProblem problem(view);
  ServicePlan plan;
  plan.rejected = problem.rejected();
  const Attempt attempt =
      [&](std::span<const double> rates) -> std::optional<std::vector<Instance>> {
    Partitioning partitioning(problem);
    for (const size_t s : problem.services())
      if (!partitioning.Place(s, rates[s])) return std::nullopt;
    return partitioning.Instances();
  };
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

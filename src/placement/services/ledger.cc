#include "placement/services/ledger.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace hase::placement {
namespace {

using cluster::ShareMode;
constexpr double kSlack = 1e-9;
constexpr size_t kNobody = static_cast<size_t>(-1);
// Rounds without growth after which loads count as settled, and what counts as no change.
constexpr int kCalmRounds = 25;
constexpr double kMoved = 0.01;
// Where neighbours cost more than this the law of bandwidth is not trusted: no such company.
constexpr double kMostInterference = 1.4;
constexpr MilliShare kNearlyWhole = MilliShare(900);

latency::Neighbour LoadOf(const Placed& p) {
  const BatchOption* option = p.choice.option;
  if (option == nullptr) return {.busy = 0};
  return option->LoadAt(p.rate_rps / p.share().grant.processes, p.factor);
}

}  // namespace

Ledger::Ledger(const CapacityTable& table, Limits limits) : table_(table), limits_(limits) {
  for (const DeviceState& state : table.view().devices) {
    DeviceLedger d;
    d.type = state.type;
    d.mode = DivisionMode(state.modes);
    d.free = d.mode == ShareMode::kMig ? 7 : 1000;
    d.speed = state.speed_factor;
    d.memory = state.memory_total - state.memory_used();
    d.usable = state.up;
    if (d.mode != ShareMode::kMig) d.free -= static_cast<int>(state.share_used().value());
    devices_.push_back(std::move(d));
  }
}

int Ledger::Units(const ShareStep& step) {
  switch (step.grant.mode) {
    case ShareMode::kMig:
      return latency::MigSlices(step.grant.share);
    case ShareMode::kTimeSlice:
    case ShareMode::kExclusive:
      return 0;  // bounded by how busy the residents are
    default:
      return static_cast<int>(step.grant.share.value());
  }
}

bool Ledger::MemoryFits(const DeviceLedger& d, std::span<const Placed> residents) const {
  if (residents.size() > limits_.residents) return false;
  Bytes sum, largest;
  for (const Placed& p : residents) {
    sum += p.choice.option->memory;
    largest = std::max(largest, p.choice.option->memory);
  }
  // A lone resident is resized by stopping it first if there is no room for its shadow.
  if (limits_.shadow && residents.size() > 1) sum += largest;
  return sum <= d.memory;
}

// MIG also has eight memory slices, and an instance of three compute slices takes four of them.
bool Ledger::SlicesFit(const DeviceLedger& d, const ShareStep& step) const {
  if (d.mode != ShareMode::kMig) return true;
  const auto memory = [](const ShareStep& s) {
    return std::lround(8 * latency::MigMemoryFraction(latency::MigSlices(s.grant.share)));
  };
  long sum = memory(step);
  for (const Placed& p : d.placed) sum += memory(p.share());
  return sum <= 8;
}

bool Ledger::Settle(const DeviceLedger& d, std::vector<Placed>& after, size_t i,
                    const latency::Neighbourhood& all) const {
  Placed& p = after[i];
  latency::Neighbourhood others = all;
  others.Add(p.load, -1);
  const ServiceDemand& demand = table_.Demand(p.service);
  const auto law = table_.model().Law(demand.model, d.type);
  const double slo = table_.SloSeconds(p.service);
  // A resident that has just grown has no choice yet: what it would run alone says its demand.
  const BatchOption* mine = p.choice.option != nullptr
                                ? p.choice.option
                                : p.capacity->Best(p.share(), d.speed, slo).option;
  const auto own = mine != nullptr ? mine->busy : latency::Neighbour();
  const double plain = latency::Interference(own, law, d.mode, others);
  if (d.mode == ShareMode::kMps && plain > kMostInterference) return false;
  const double factor = p.factor = d.speed * (1 + (plain - 1) * (1 + table_.margin() * law.doubt));
  if (p.choice.option != nullptr) {  // as it is?
    BatchServer server = p.choice.option->server;
    server.run_s *= factor;
    const double rate = BatchQueue::SustainableRate(p.choice.option->response, server, slo) *
                        p.share().grant.processes;
    if (rate >= p.rate_rps - kSlack) {
      p.choice.rate_rps = rate;
      return true;
    }
  }
  const Choice choice = p.capacity->Best(p.share(), factor, slo);
  if (choice.option == nullptr || choice.rate_rps < p.rate_rps - kSlack) return false;
  p.choice = choice;
  return true;
}

std::optional<Offer> Ledger::OfferStep(const DeviceLedger& d, size_t service, size_t step,
                                       double rate_rps, bool partial) const {
  const Capacity& capacity = table_.Of(service, d.type, d.mode);
  const Choice alone = capacity.Best(capacity.steps[step], d.speed, table_.SloSeconds(service));
  if (alone.option == nullptr || !SlicesFit(d, capacity.steps[step])) return std::nullopt;
  Offer offer;
  offer.after = d.placed;
  Placed mine;
  mine.service = static_cast<uint32_t>(service);
  mine.capacity = &capacity;
  mine.step = step;
  mine.choice = alone;
  mine.rate_rps = rate_rps;
  if (partial) {
    const bool alone_for_good =
        d.mode == ShareMode::kMig || (d.placed.empty() && mine.share().grant.share > kNearlyWhole);
    const double stretch = d.speed * (1 + (alone_for_good ? 0 : limits_.slack));
    mine.rate_rps =
        std::min(rate_rps,
                 capacity.Best(capacity.steps[step], stretch, table_.SloSeconds(service)).rate_rps);
    if (mine.rate_rps <= 0) return std::nullopt;
  }
  mine.load = LoadOf(mine);
  offer.rate_rps = mine.rate_rps;
  offer.units = Units(mine.share());
  offer.after.push_back(mine);
  if (!Converge(d, offer.after, &offer.units)) return std::nullopt;
  if (offer.units > d.free || !MemoryFits(d, offer.after)) return std::nullopt;
  return offer;
}

bool Ledger::Converge(const DeviceLedger& d, std::vector<Placed>& after, int* units) const {
  for (int calm = 0; calm < kCalmRounds;) {
    latency::Neighbourhood all;
    for (const Placed& p : after) all.Add(p.load);
    bool grown = false;
    for (size_t i = 0; i < after.size(); ++i) {
      if (Settle(d, after, i, all)) continue;
      Placed& p = after[i];
      if (units == nullptr || d.mode == ShareMode::kMig || p.step + 1 >= p.capacity->steps.size())
        return false;
      *units += Units(p.capacity->steps[p.step + 1]) - Units(p.share());
      if (*units > d.free) return false;
      ++p.step;
      p.choice = {};
      grown = true;
    }
    double moved = 0;
    for (Placed& p : after) {
      if (p.choice.option == nullptr) continue;
      const auto load = LoadOf(p);
      moved = std::max(
          {moved, std::abs(load.busy - p.load.busy), std::abs(load.dram_peak - p.load.dram_peak)});
      p.load = load;
    }
    if (!grown && moved < kMoved) return true;
    if (!grown) ++calm;
  }
  return false;  // they drive each other up without end
}

std::optional<Offer> Ledger::Least(DeviceId device, size_t service, double rate_rps) const {
  const DeviceLedger& d = devices_[device.index()];
  if (!d.usable) return std::nullopt;
  const Capacity& capacity = table_.Of(service, d.type, d.mode);
  const auto& steps = capacity.steps;
  // Envelope rates are sorted: skip what could not serve it even alone.
  auto step =
      std::lower_bound(steps.begin(), steps.end(), rate_rps,
                       [](const ShareStep& s, double rate) { return s.rate_rps < rate - kSlack; });
  for (int tries = 0; step != steps.end() && tries < 6; ++step, ++tries) {
    if (Units(*step) > d.free) return std::nullopt;
    if (auto offer =
            OfferStep(d, service, static_cast<size_t>(step - steps.begin()), rate_rps, false))
      return offer;
  }
  return std::nullopt;
}

std::optional<Offer> Ledger::Densest(DeviceId device, size_t service, double rate_rps) const {
  const DeviceLedger& d = devices_[device.index()];
  if (!d.usable) return std::nullopt;
  const auto& steps = table_.Of(service, d.type, d.mode).steps;
  size_t best = kNobody;
  double density = 0;
  for (size_t i = 0; i < steps.size() && Units(steps[i]) <= d.free; ++i) {
    const double useful = std::min(rate_rps, steps[i].rate_rps);
    const double here = useful / ToFraction(steps[i].grant.share);
    // Among shares of nearly the same worth, the larger: fewer instances.
    if (useful > 0 && here > density * 0.97) {
      best = i;
      density = std::max(density, here);
    }
  }
  if (best == kNobody) return std::nullopt;
  auto offer = OfferStep(d, service, best, rate_rps, true);
  return offer && offer->rate_rps > 0 ? offer : std::nullopt;
}

void Ledger::Take(DeviceId device, const Offer& offer) {
  DeviceLedger& d = devices_[device.index()];
  d.free -= offer.units;
  HASE_CHECK(d.free >= 0, "device {} is oversold", device.index());
  d.placed = offer.after;
}

void Ledger::Put(DeviceId device, const Placed& placed) {
  DeviceLedger& d = devices_[device.index()];
  d.free -= Units(placed.share());
  d.placed.push_back(placed);
  d.placed.back().load = LoadOf(placed);
}

void Ledger::Remove(DeviceId device, size_t position) {
  DeviceLedger& d = devices_[device.index()];
  d.free += Units(d.placed[position].share());
  d.placed.erase(d.placed.begin() + static_cast<ptrdiff_t>(position));
}

bool Ledger::Adopt(const Instance& instance, size_t service) {
  DeviceLedger& d = devices_[instance.device.index()];
  const Capacity& capacity = table_.OfProcesses(service, d.type, d.mode, instance.processes);
  Placed p;
  p.service = static_cast<uint32_t>(service);
  p.capacity = &capacity;
  while (p.step < capacity.steps.size() && capacity.steps[p.step].grant.share < instance.share)
    ++p.step;
  if (!d.usable || p.step == capacity.steps.size() || Units(p.share()) > d.free ||
      !SlicesFit(d, p.share())) {
    return false;
  }
  p.rate_rps = instance.rate_rps;
  p.choice = capacity.Best(p.share(), d.speed, table_.SloSeconds(service));
  if (p.choice.option == nullptr) return false;
  auto after = d.placed;
  after.push_back(p);
  const int units = Units(p.share());
  if (!Stand(d, std::move(after))) return false;
  d.free -= units;
  return true;
}

bool Ledger::Install(DeviceId device, std::vector<Placed> residents) {
  DeviceLedger& d = devices_[device.index()];
  if (!d.usable && !residents.empty()) return false;
  int free = d.free;
  for (const Placed& p : d.placed) free += Units(p.share());
  for (const Placed& p : residents) free -= Units(p.share());
  if (free < 0 || !Stand(d, std::move(residents))) return false;
  d.free = free;
  return true;
}

void Ledger::SetIdentity(DeviceId device, size_t position, uint32_t id, uint32_t replaces) {
  Placed& p = devices_[device.index()].placed[position];
  p.id = id;
  p.replaces = replaces;
}

double Ledger::Sustained(DeviceId device, size_t position) const {
  const DeviceLedger& d = devices_[device.index()];
  auto after = d.placed;
  latency::Neighbourhood all;
  for (const Placed& p : after) all.Add(p.load);
  after[position].rate_rps = 0;
  after[position].choice.option = nullptr;
  return Settle(d, after, position, all) ? after[position].choice.rate_rps : 0;
}

bool Ledger::Stand(DeviceLedger& d, std::vector<Placed> after) const {
  for (Placed& p : after) p.load = LoadOf(p);
  if (!Converge(d, after, nullptr) || !MemoryFits(d, after)) return false;
  d.placed = std::move(after);
  return true;
}

bool Ledger::SetRate(DeviceId device, size_t position, double rate_rps) {
  DeviceLedger& d = devices_[device.index()];
  auto after = d.placed;
  after[position].rate_rps = rate_rps;
  return Stand(d, std::move(after));
}

bool Ledger::SetStep(DeviceId device, size_t position, size_t step) {
  DeviceLedger& d = devices_[device.index()];
  auto after = d.placed;
  const int more = Units(after[position].capacity->steps[step]) - Units(after[position].share());
  if (more > d.free) return false;
  if (d.mode == ShareMode::kMig) return false;  // a slice is not resized in place
  Placed& p = after[position];
  p.step = step;
  p.choice = p.capacity->Best(p.share(), d.speed, table_.SloSeconds(p.service));
  if (p.choice.option == nullptr || !Stand(d, std::move(after))) return false;
  d.free -= more;
  return true;
}

void Ledger::DealSpare(DeviceId device) {
  DeviceLedger& d = devices_[device.index()];
  if (d.placed.empty() || d.mode == ShareMode::kTimeSlice) return;
  std::vector<bool> full(d.placed.size());
  while (true) {
    size_t neediest = kNobody;
    double least = 0;
    for (size_t i = 0; i < d.placed.size(); ++i) {
      const Placed& p = d.placed[i];
      if (full[i] || p.step + 1 >= p.capacity->steps.size()) continue;
      if (Units(p.capacity->steps[p.step + 1]) - Units(p.share()) > d.free) continue;
      const double headroom = p.choice.rate_rps / std::max(1e-12, p.rate_rps);
      if (neediest == kNobody || headroom < least) neediest = i, least = headroom;
    }
    if (neediest == kNobody) break;
    if (!SetStep(device, neediest, d.placed[neediest].step + 1)) full[neediest] = true;
  }
}

void Ledger::DealSpare() {
  for (uint32_t i = 0; i < devices_.size(); ++i) DealSpare(DeviceId(i));
}

std::vector<Instance> Ledger::Instances() const {
  std::vector<Instance> instances;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    const DeviceLedger& d = devices_[i];
    int slot = 0;
    for (const Placed& p : d.placed) {
      const auto& grant = p.share().grant;
      Instance instance;
      instance.service = table_.Demand(p.service).id;
      instance.device = DeviceId(i);
      instance.share = grant.share;
      instance.mode = grant.mode;
      if (d.placed.size() == 1 && grant.share == kWholeDevice)
        instance.mode = ShareMode::kExclusive;
      instance.batch = p.choice.batch;
      instance.rate_rps = p.rate_rps;
      instance.processes = grant.processes;
      instance.slot = slot++;
      instances.push_back(instance);
    }
  }
  return instances;
}

}  // namespace hase::placement

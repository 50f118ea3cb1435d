#include "placement/services/adapt.h"

#include <algorithm>
#include <cmath>

#include "placement/services/placer.h"

namespace hase::placement {
namespace {

constexpr double kNoise = 1e-6;  // of a rate
constexpr int kFew = 4;          // devices looked at per type

}  // namespace

ServiceAdapter::ServiceAdapter(const CapacityTable& table, AdaptOptions options)
    : table_(table),
      options_(options),
      ledger_(std::make_unique<Ledger>(table)),
      worth_(table.view().types.size(), 1.0),
      low_since_(table.services()),
      unplaced_(table.services(), 0.0) {
  for (size_t s = 0; s < table.services(); ++s) rates_.push_back(table.Demand(s).rate_rps);
  for (const DeviceState& d : table.view().devices) {
    worth_[d.type.index()] = PriceOf(d.id);
    up_.push_back(d.up);
  }
}

double ServiceAdapter::PriceOf(DeviceId device) const {
  return table_.view().PriceOf(device.index());
}

double ServiceAdapter::CostOf(const Ledger& ledger) const {
  double sum = 0;
  for (uint32_t d = 0; d < ledger.size(); ++d)
    if (!ledger.On(DeviceId(d)).empty()) sum += PriceOf(DeviceId(d));
  return sum;
}

double ServiceAdapter::CostPerHour() const { return CostOf(*ledger_); }

std::vector<ServiceAdapter::Where> ServiceAdapter::InstancesOf(size_t service) const {
  std::vector<Where> all;
  for (uint32_t d = 0; d < ledger_->size(); ++d) {
    const auto& on = ledger_->On(DeviceId(d));
    for (size_t i = 0; i < on.size(); ++i)
      if (on[i].service == service) all.push_back({DeviceId(d), i});
  }
  return all;
}

double ServiceAdapter::Provisioned(size_t service) const {
  double sum = 0;
  for (const Where& w : InstancesOf(service)) sum += ledger_->On(w.device)[w.position].rate_rps;
  return sum;
}

void ServiceAdapter::Touch(DeviceId device) {
  if (std::find(touched_.begin(), touched_.end(), device) == touched_.end())
    touched_.push_back(device);
}

std::vector<AdaptAction> ServiceAdapter::Begin(const ServicePlan& plan) {
  std::map<uint32_t, size_t> index;
  for (size_t s = 0; s < table_.services(); ++s) index[table_.Demand(s).id.index()] = s;
  std::vector<double> missing(table_.services(), 0.0);
  for (const Instance& instance : plan.instances) {
    const size_t s = index[instance.service.index()];
    if (ledger_->Adopt(instance, s))
      Touch(instance.device);
    else
      missing[s] += instance.rate_rps;
  }
  for (size_t s = 0; s < missing.size(); ++s)
    if (missing[s] > 0) unplaced_[s] = AddInstances(s, missing[s]);
  if (options_.level >= AdaptLevel::kShares) TrimShares();
  return Actions();
}

// A plan deals out all the share there is. Nothing runs yet, so what nobody needs is taken back:
// room for those that grow first.
void ServiceAdapter::TrimShares() {
  for (const DeviceId d : touched_)
    for (size_t i = 0; i < ledger_->On(d).size(); ++i) {
      const double want = ledger_->On(d)[i].rate_rps * (1 + options_.headroom);
      for (size_t step = ledger_->On(d)[i].step; step > 0; --step) {
        const size_t had = ledger_->On(d)[i].step;
        if (!ledger_->SetStep(d, i, step - 1)) break;
        if (ledger_->Sustained(d, i) >= want) continue;
        ledger_->SetStep(d, i, had);
        break;
      }
    }
}

std::vector<AdaptAction> ServiceAdapter::OnRate(Nanos now, size_t service, double rate_rps) {
  if (options_.level == AdaptLevel::kNothing) return {};
  rates_[service] = rate_rps;
  const double have = Provisioned(service), want = rate_rps * (1 + options_.headroom);
  if (rate_rps * (1 + 0.3 * options_.headroom) > have * (1 + kNoise)) {
    low_since_[service].reset();
    double missing = want - DealOver(service, want);
    if (missing > want * kNoise && options_.level >= AdaptLevel::kShares)
      missing = GrowShares(service, missing);
    if (missing > want * kNoise && options_.level >= AdaptLevel::kPlacement) {
      const double cost = CostPerHour();
      missing = AddInstances(service, missing);
      // Before another device is paid for: would all fit on less, placed anew?
      if (missing <= want * kNoise && CostPerHour() > cost) Repack();
    }
    unplaced_[service] = std::max(0.0, missing);
    return Actions();
  }
  unplaced_[service] = 0;
  if (want > have * options_.low_water) {
    low_since_[service].reset();
    return {};
  }
  if (!low_since_[service]) low_since_[service] = now;
  if (now - *low_since_[service] < FromSeconds(options_.hold_s)) return {};
  low_since_[service].reset();
  Shrink(service, want);
  return Actions();
}

// A neighbour may not stand the whole gain: half of it is tried, and half again.
void ServiceAdapter::Raise(const Where& where, double wish) {
  const double before = ledger_->On(where.device)[where.position].rate_rps;
  for (int tries = 0; tries < 4 && wish > before * (1 + kNoise); ++tries) {
    if (ledger_->SetRate(where.device, where.position, wish)) return;
    wish = before + (wish - before) / 2;
  }
}

double ServiceAdapter::DealOver(size_t service, double rate) {
  const auto all = InstancesOf(service);
  double dealt = 0;
  // Each takes what it sustains as things stand; the others follow the sums.
  double left = rate;
  for (size_t k = 0; k < all.size(); ++k) {
    const Where& w = all[k];
    const double before = ledger_->On(w.device)[w.position].rate_rps;
    double other = 0;  // what those after it carry already
    for (size_t j = k + 1; j < all.size(); ++j)
      other += ledger_->On(all[j].device)[all[j].position].rate_rps;
    const double most = ledger_->Sustained(w.device, w.position);
    Raise(w, std::clamp(left - other, before, std::max(before, most)));
    const double now = ledger_->On(w.device)[w.position].rate_rps;
    if (std::abs(now - before) > kNoise * rate) Touch(w.device);
    dealt += now;
    left -= now;
  }
  return dealt;
}

double ServiceAdapter::GrowShares(size_t service, double missing) {
  // The instance that gains most per step first is the one with most room; devices are few.
  auto all = InstancesOf(service);
  std::stable_sort(all.begin(), all.end(), [&](const Where& a, const Where& b) {
    return ledger_->Free(a.device) > ledger_->Free(b.device);
  });
  for (const Where& w : all) {
    if (missing <= 0) break;
    const double before = ledger_->On(w.device)[w.position].rate_rps;
    const Placed& p = ledger_->On(w.device)[w.position];
    // The least step that serves it by the table, or the largest there is room for.
    size_t step = p.step;
    while (step + 1 < p.capacity->steps.size() &&
           p.capacity->steps[step].rate_rps < before + missing &&
           Ledger::Units(p.capacity->steps[step + 1]) - Ledger::Units(p.share()) <=
               ledger_->Free(w.device))
      ++step;
    if (step == p.step) continue;
    const uint32_t id = p.id;
    if (!ledger_->SetStep(w.device, w.position, step)) continue;
    // Told as a replacement: a share is not changed in place.
    if (id != 0) ledger_->SetIdentity(w.device, w.position, 0, id);
    Touch(w.device);
    const double most = ledger_->Sustained(w.device, w.position);
    Raise(w, std::min(before + missing, most));
    missing -= ledger_->On(w.device)[w.position].rate_rps - before;
  }
  return missing;
}

double ServiceAdapter::AddInstances(size_t service, double missing) {
  for (const bool open_others : {false, true}) {
    for (uint32_t d = 0; d < ledger_->size(); ++d)
      ledger_->Allow(DeviceId(d), up_[d] && (open_others || InUse(DeviceId(d))));
    Ledger trial = *ledger_;
    std::vector<DeviceId> touched;
    Placer placer(trial, worth_, kFew);
    const bool placed = placer.Place(service, missing, &touched);
    if (!placed && !open_others) continue;
    // As much as fits, where nothing more can be opened.
    double before = Provisioned(service);
    ledger_ = std::make_unique<Ledger>(trial);
    for (const DeviceId d : touched) Touch(d);
    missing -= Provisioned(service) - before;
    break;
  }
  for (uint32_t d = 0; d < ledger_->size(); ++d) ledger_->Allow(DeviceId(d), up_[d]);
  return missing;
}

void ServiceAdapter::Shrink(size_t service, double rate) {
  auto all = InstancesOf(service);
  // Smallest first: what the others carry without it goes.
  std::stable_sort(all.begin(), all.end(), [&](const Where& a, const Where& b) {
    return ledger_->On(a.device)[a.position].rate_rps < ledger_->On(b.device)[b.position].rate_rps;
  });
  double surplus = Provisioned(service) - rate;
  for (const Where& w : all) {
    const Placed p = ledger_->On(w.device)[w.position];
    if (surplus <= 0) break;
    if (options_.level >= AdaptLevel::kPlacement && all.size() > 1 && p.rate_rps <= surplus) {
      ledger_->Remove(w.device, w.position);
      Touch(w.device);
      break;  // positions on this device have moved: the next call goes on
    }
    const double less = std::max(p.rate_rps - surplus, rate * 0.02);
    if (!ledger_->SetRate(w.device, w.position, less)) continue;
    surplus -= p.rate_rps - less;
    Touch(w.device);
    if (options_.level < AdaptLevel::kShares) continue;
    size_t step = 0;
    while (step < p.step && p.capacity->steps[step].rate_rps < less * 1.1) ++step;
    // A replacement must be worth its loading: a quarter of the share at least.
    for (; step < p.step; ++step) {
      if (4 * Ledger::Units(p.capacity->steps[step]) > 3 * Ledger::Units(p.share())) break;
      if (!ledger_->SetStep(w.device, w.position, step)) continue;
      if (p.id != 0) ledger_->SetIdentity(w.device, w.position, 0, p.id);
      break;
    }
  }
}

bool ServiceAdapter::Vacate(DeviceId device, bool open_others) {
  const auto residents = ledger_->On(device);
  if (residents.empty() || static_cast<int>(residents.size()) > options_.most_moves) return false;
  const double cost = CostOf(*ledger_);
  Ledger trial = *ledger_;
  for (uint32_t d = 0; d < trial.size(); ++d) {
    const DeviceId id(d);
    const bool cheaper = open_others && PriceOf(id) < PriceOf(device) * 0.99;
    trial.Allow(id, up_[d] && id != device && (cheaper || !trial.On(id).empty()));
  }
  std::vector<DeviceId> touched{device};
  while (!trial.On(device).empty()) trial.Remove(device, trial.On(device).size() - 1);
  Placer placer(trial, worth_, kFew);
  std::vector<std::pair<DeviceId, uint32_t>> moved;  // where an instance of which id went first
  for (const Placed& p : residents) {
    const size_t from = touched.size();
    if (!placer.Place(p.service, p.rate_rps, &touched)) return false;
    const size_t pieces = touched.size() - from;
    if (pieces == 0 || pieces > 2) return false;  // nothing to move, or too much
    const auto& there = trial.On(touched[from]);
    // The new one stands last where it was taken.
    trial.SetIdentity(touched[from], there.size() - 1, 0, p.id);
  }
  if (CostOf(trial) > cost * (1 - options_.saving)) return false;
  for (uint32_t d = 0; d < trial.size(); ++d) trial.Allow(DeviceId(d), up_[d]);
  ledger_ = std::make_unique<Ledger>(trial);
  for (const DeviceId d : touched) Touch(d);
  return true;
}

std::vector<AdaptAction> ServiceAdapter::OnTick(Nanos now) {
  if (options_.level < AdaptLevel::kPlacement) return {};
  if (last_tick_ && now - *last_tick_ < FromSeconds(options_.tick_s)) return {};
  last_tick_ = now;
  if (Repack()) return Actions();
  // Most money unused first.
  std::vector<DeviceId> used;
  for (uint32_t d = 0; d < ledger_->size(); ++d)
    if (InUse(DeviceId(d))) used.push_back(DeviceId(d));
  std::stable_sort(used.begin(), used.end(), [&](DeviceId a, DeviceId b) {
    return PriceOf(a) * (1 + ledger_->Free(a)) > PriceOf(b) * (1 + ledger_->Free(b));
  });
  for (const DeviceId d : used)
    for (const bool open_others : {false, true})
      if (Vacate(d, open_others)) return Actions();
  return {};
}

std::vector<AdaptAction> ServiceAdapter::OnDevice(DeviceId device, bool up) {
  up_[device.index()] = up;
  ledger_->Allow(device, up);
  if (up) return {};
  const auto residents = ledger_->On(device);
  while (!ledger_->On(device).empty()) ledger_->Remove(device, ledger_->On(device).size() - 1);
  Touch(device);
  for (const Placed& p : residents) unplaced_[p.service] += AddInstances(p.service, p.rate_rps);
  return Actions();
}

std::vector<AdaptAction> ServiceAdapter::Actions() {
  std::vector<AdaptAction> actions;
  const auto instances = ledger_->Instances();  // in the order of devices and positions
  std::vector<size_t> first(ledger_->size() + 1, 0);
  for (uint32_t d = 0; d < ledger_->size(); ++d)
    first[d + 1] = first[d] + ledger_->On(DeviceId(d)).size();
  std::map<uint32_t, bool> replaced;
  std::vector<uint32_t> seen;
  for (const DeviceId d : touched_)
    for (size_t i = 0; i < ledger_->On(d).size(); ++i) {
      const Placed p = ledger_->On(d)[i];
      const Instance& instance = instances[first[d.index()] + i];
      const auto known = known_.find(p.id);
      // A resident that an offer grew has its old id and another share.
      const bool grown = known != known_.end() && known->second.share != instance.share;
      if (p.id == 0 || grown) {
        AdaptAction a;
        a.replaces = grown ? p.id : p.replaces;
        a.kind = a.replaces != 0 ? AdaptAction::Kind::kReplace : AdaptAction::Kind::kStart;
        a.id = next_id_++;
        a.instance = instance;
        if (a.replaces != 0) replaced[a.replaces] = true;
        ledger_->SetIdentity(d, i, a.id, 0);
        known_[a.id] = instance;
        seen.push_back(a.id);
        actions.push_back(a);
        continue;
      }
      seen.push_back(p.id);
      if (known->second.batch != instance.batch ||
          std::abs(known->second.rate_rps - instance.rate_rps) > kNoise * instance.rate_rps)
        actions.push_back({AdaptAction::Kind::kTune, p.id, 0, instance});
      known->second = instance;
    }
  // Those of the touched devices that are gone.
  std::sort(seen.begin(), seen.end());
  for (auto it = known_.begin(); it != known_.end();) {
    const DeviceId d = it->second.device;
    const bool here = std::find(touched_.begin(), touched_.end(), d) != touched_.end();
    if (!here || std::binary_search(seen.begin(), seen.end(), it->first)) {
      ++it;
      continue;
    }
    if (!replaced.contains(it->first))
      actions.push_back({AdaptAction::Kind::kStop, it->first, 0, it->second});
    it = known_.erase(it);
  }
  touched_.clear();
  return actions;
}

}  // namespace hase::placement

// Moving from where least changes have led to a plan made anew.
#include <algorithm>
#include <map>

#include "placement/services/adapt.h"
#include "placement/services/inss.h"

namespace hase::placement {
namespace {

constexpr int kOrders = 8;

// How much of `wanted` stands on the device already: twice what need not even start anew.
int Overlap(std::span<const Placed> wanted, std::span<const Placed> standing) {
  std::vector<bool> used(standing.size());
  int score = 0;
  for (const bool same_share : {true, false})
    for (const Placed& w : wanted)
      for (size_t k = 0; k < standing.size(); ++k) {
        const Placed& s = standing[k];
        if (used[k] || s.service != w.service || (s.step == w.step) != same_share) continue;
        used[k] = true;
        score += same_share ? 2 : 1;
        break;
      }
  return score;
}

// Residents as wanted; those that stand there with the same share keep their identity, which is
// taken out of `left` (service, id).
std::vector<Placed> Identified(std::vector<Placed> wanted, std::span<const Placed> standing,
                               std::multimap<uint32_t, uint32_t>& left) {
  std::vector<bool> used(standing.size());
  for (Placed& w : wanted) {
    w.id = w.replaces = 0;
    for (size_t k = 0; k < standing.size(); ++k) {
      const Placed& s = standing[k];
      if (used[k] || s.service != w.service || s.capacity != w.capacity || s.step != w.step)
        continue;
      used[k] = true;
      w.id = s.id;
      const auto [from, to] = left.equal_range(s.service);
      for (auto it = from; it != to; ++it)
        if (it->second == s.id) {
          left.erase(it);
          break;
        }
      break;
    }
  }
  return wanted;
}

}  // namespace

bool ServiceAdapter::Repack() {
  if (table_.services() * ledger_->size() > options_.small) return false;
  std::vector<double> want;
  for (const double rate : rates_) want.push_back(rate * (1 + options_.headroom));
  InssOptions cheap;
  cheap.objective = ServiceObjective::kMinCost;
  cheap.orders = kOrders;
  const auto target = CheapestLedger(table_, want, up_, cheap);
  if (!target || CostOf(*target) > CostOf(*ledger_) * (1 - options_.repack_saving)) return false;

  struct Pairing {
    int overlap;
    DeviceId wanted, at;
  };
  std::vector<Pairing> pairings;
  std::multimap<uint32_t, uint32_t> left;  // running instances without a place, by service
  for (uint32_t a = 0; a < ledger_->size(); ++a) {
    for (const Placed& p : ledger_->On(DeviceId(a)))
      if (const uint32_t running = p.id != 0 ? p.id : p.replaces; running != 0)
        left.emplace(p.service, running);
    for (uint32_t w = 0; w < target->size(); ++w) {
      const DeviceId at(a), wanted(w);
      if (!up_[a] || target->On(wanted).empty() || target->Type(wanted) != ledger_->Type(at) ||
          PriceOf(wanted) != PriceOf(at))
        continue;
      pairings.push_back({Overlap(target->On(wanted), ledger_->On(at)), wanted, at});
    }
  }
  std::stable_sort(pairings.begin(), pairings.end(),
                   [](const Pairing& a, const Pairing& b) { return a.overlap > b.overlap; });

  Ledger trial = *ledger_;
  for (uint32_t d = 0; d < trial.size(); ++d) trial.Install(DeviceId(d), {});
  std::vector<bool> settled(target->size()), taken(target->size());
  for (const Pairing& p : pairings) {
    if (settled[p.wanted.index()] || taken[p.at.index()]) continue;
    auto rest = left;
    // Equal cards differ a little: one may not carry what another does.
    if (!trial.Install(p.at, Identified(target->On(p.wanted), ledger_->On(p.at), rest))) continue;
    left = std::move(rest);
    settled[p.wanted.index()] = taken[p.at.index()] = true;
  }
  for (uint32_t d = 0; d < target->size(); ++d)
    if (!target->On(DeviceId(d)).empty() && !settled[d]) return false;

  for (uint32_t d = 0; d < trial.size(); ++d) {
    const DeviceId at(d);
    for (size_t i = 0; i < trial.On(at).size(); ++i) {
      if (trial.On(at)[i].id != 0) continue;
      const auto old = left.find(trial.On(at)[i].service);
      if (old == left.end()) continue;
      trial.SetIdentity(at, i, 0, old->second);
      left.erase(old);
    }
    if (!trial.On(at).empty() || !ledger_->On(at).empty()) Touch(at);
  }
  ledger_ = std::make_unique<Ledger>(trial);
  std::fill(low_since_.begin(), low_since_.end(), std::nullopt);
  return true;
}

}  // namespace hase::placement

#include "placement/services/placer.h"

#include <algorithm>

namespace hase::placement {
namespace {

constexpr int kMostParts = 64;       // replicas of one service
constexpr double kLeastPart = 0.02;  // of its rate; smaller parts are not worth a process

}  // namespace

FreeIndex::FreeIndex(const Ledger& ledger) {
  for (uint32_t i = 0; i < ledger.size(); ++i)
    if (ledger.Usable(DeviceId(i))) Insert(ledger, DeviceId(i));
}

void FreeIndex::Candidates(DeviceTypeId type, int units, int few,
                           std::vector<DeviceId>& out) const {
  out.clear();
  if (type.index() >= types_.size()) return;
  const auto& set = types_[type.index()];
  auto it = set.lower_bound({units, DeviceId(0)});
  for (int k = 0; k < few && it != set.end(); ++k, ++it) out.push_back(it->second);
  auto back = set.rbegin();
  for (int k = 0; k < few && back != set.rend(); ++k, ++back)
    if (std::find(out.begin(), out.end(), back->second) == out.end()) out.push_back(back->second);
}

std::optional<DeviceId> FreeIndex::Any(DeviceTypeId type) const {
  if (type.index() >= types_.size() || types_[type.index()].empty()) return std::nullopt;
  return types_[type.index()].begin()->second;
}

std::set<std::pair<int, DeviceId>>& FreeIndex::Of(DeviceTypeId type) {
  if (type.index() >= types_.size()) types_.resize(type.index() + 1);
  return types_[type.index()];
}

bool Placer::Place(size_t service, double rate, std::vector<DeviceId>* touched) {
  double left = rate;
  for (int part = 0; part < kMostParts && left > rate * 1e-9; ++part) {
    const Best best = Search(service, left, rate * kLeastPart);
    if (!best.device) return false;
    index_.Erase(ledger_, *best.device);
    ledger_.Take(*best.device, best.offer);
    index_.Insert(ledger_, *best.device);
    if (touched != nullptr) touched->push_back(*best.device);
    left -= best.offer.rate_rps;
  }
  return left <= rate * 1e-9;
}

Placer::Best Placer::Search(size_t service, double rate, double least) {
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
    index_.Candidates(DeviceTypeId(t), units, few_, devices_);
    for (const DeviceId d : devices_) {
      if (auto whole = ledger_.Least(d, service, rate)) Consider(best, d, std::move(*whole));
      if (auto part = ledger_.Densest(d, service, rate);
          part && part->rate_rps >= std::min(least, rate))
        Consider(best, d, std::move(*part));
    }
  }
  return best;
}

void Placer::Consider(Best& best, DeviceId d, Offer offer) {
  // A time-sliced resident takes the time it is busy for.
  const double whole = ledger_.Mode(d) == cluster::ShareMode::kMig ? 7 : 1000;
  const double share = ledger_.Mode(d) == cluster::ShareMode::kTimeSlice ? offer.added().load.busy
                                                                         : offer.units / whole;
  const double cost = share * worth_[ledger_.Type(d).index()] / offer.rate_rps;
  if (!best.device || cost < best.cost_per_rate * (1 - 1e-9)) best = {d, std::move(offer), cost};
}

}  // namespace hase::placement

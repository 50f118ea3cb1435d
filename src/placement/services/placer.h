// Placer: stage one of `inss` for one service after another. For each the device and the least
// share that serves its rate and keeps every objective, or, where no device carries it whole or
// parts are served better, replicas. Candidates are compared by what the share they take is worth.
#pragma once

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "placement/services/ledger.h"

namespace hase::placement {

// Devices of one type by free share, so that only a few are looked at.
class FreeIndex {
 public:
  explicit FreeIndex(const Ledger& ledger);
  void Insert(const Ledger& ledger, DeviceId d) { Of(ledger.Type(d)).emplace(ledger.Free(d), d); }
  void Erase(const Ledger& ledger, DeviceId d) { Of(ledger.Type(d)).erase({ledger.Free(d), d}); }
  // The `few` tightest devices with at least `units` free, and the `few` emptiest.
  void Candidates(DeviceTypeId type, int units, int few, std::vector<DeviceId>& out) const;
  std::optional<DeviceId> Any(DeviceTypeId type) const;
  size_t types() const { return types_.size(); }

 private:
  std::set<std::pair<int, DeviceId>>& Of(DeviceTypeId type);
  std::vector<std::set<std::pair<int, DeviceId>>> types_;
};

class Placer {
 public:
  // `worth` by device type, of its whole share; it and the ledger outlive the placer. `few` devices
  // are looked at per type and order.
  Placer(Ledger& ledger, std::span<const double> worth, int few)
      : ledger_(ledger), worth_(worth), few_(few), index_(ledger) {}

  // Places all of `rate` or gives false with a part of it placed. Devices that took something are
  // appended to `touched` where given.
  bool Place(size_t service, double rate, std::vector<DeviceId>* touched = nullptr);

 private:
  struct Best {
    std::optional<DeviceId> device;
    Offer offer;
    double cost_per_rate = 0;
  };
  Best Search(size_t service, double rate, double least);
  void Consider(Best& best, DeviceId d, Offer offer);

  Ledger& ledger_;
  std::span<const double> worth_;
  int few_;
  FreeIndex index_;
  std::vector<DeviceId> devices_;
};

}  // namespace hase::placement

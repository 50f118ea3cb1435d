// ServiceAdapter: keeps a running plan right while rates move. Events in (a service's rate, a
// device lost or back, a tick), actions out; no clock, no threads. The least change that helps is
// taken first:
//   batches and routing    rates are dealt anew over the instances there are, batches follow
//   shares                 an instance is replaced by one with more of the same device
//   placement              an instance is added, on a device in use if one has room
// and downwards, after a while below a low-water mark: instances go, shares shrink, and a device
// whose residents fit elsewhere for less money is vacated. Hysteresis: nothing happens between the
// low-water mark and what is provisioned (the rate plus headroom).
//
// Least changes leave pieces all over the cluster. On small ones a tick therefore also makes a plan
// anew and, if that saves enough, moves to it, on the devices where most of it stands already.
//
// A share is never changed in place: kReplace starts the new instance, which takes over when it
// has loaded; the old one stops then.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "placement/services/ledger.h"

namespace hase::placement {

enum class AdaptLevel { kNothing, kBatches, kShares, kPlacement };

struct AdaptOptions {
  AdaptLevel level = AdaptLevel::kPlacement;
  double headroom = 0.10;       // provisioned above the rate
  double low_water = 0.75;      // of what is provisioned
  double hold_s = 60;           // below it before anything is taken away
  double tick_s = 15;           // between two tries to vacate a device
  int most_moves = 8;           // instances moved to vacate one device
  double saving = 0.02;         // of the cost: less is not worth vacating a device for
  double repack_saving = 0.04;  // the same of a new plan
  size_t small = 2000;          // services × devices up to which plans are made anew
};

struct AdaptAction {
  enum class Kind { kTune, kStart, kReplace, kStop };
  Kind kind = Kind::kTune;
  uint32_t id = 0;        // of the instance
  uint32_t replaces = 0;  // kReplace: the instance it takes over from
  Instance instance;      // as it shall be (kStop: as it was)
};

class ServiceAdapter {
 public:
  // `table`, its view and model outlive the adapter.
  ServiceAdapter(const CapacityTable& table, AdaptOptions options);

  // Starts from a plan. Instances that do not stand under the adapter's own rules are placed anew.
  std::vector<AdaptAction> Begin(const ServicePlan& plan);
  // The service's rate, as observed or foretold.
  std::vector<AdaptAction> OnRate(Nanos now, size_t service, double rate_rps);
  // A device went away or came back.
  std::vector<AdaptAction> OnDevice(DeviceId device, bool up);
  // Time for housekeeping: vacates a device if that saves money.
  std::vector<AdaptAction> OnTick(Nanos now);

  double CostPerHour() const;
  // Rate that was asked for, headroom included, and could not be placed, by service.
  double Unplaced(size_t service) const { return unplaced_[service]; }
  const Ledger& ledger() const { return *ledger_; }

 private:
  struct Where {
    DeviceId device;
    size_t position = 0;
  };
  std::vector<Where> InstancesOf(size_t service) const;
  double Provisioned(size_t service) const;
  bool InUse(DeviceId device) const { return !ledger_->On(device).empty(); }
  double PriceOf(DeviceId device) const;
  double CostOf(const Ledger& ledger) const;

  double DealOver(size_t service, double rate);         // what its instances take of it
  double GrowShares(size_t service, double missing);    // what could not be gained
  double AddInstances(size_t service, double missing);  // the same
  void TrimShares();
  void Raise(const Where& where, double wish);
  void Shrink(size_t service, double rate);
  bool Vacate(DeviceId device, bool open_others);
  bool Repack();
  void Touch(DeviceId device);
  std::vector<AdaptAction> Actions();

  const CapacityTable& table_;
  AdaptOptions options_;
  std::unique_ptr<Ledger> ledger_;
  std::vector<double> worth_;           // by device type: price
  std::map<uint32_t, Instance> known_;  // as last told, by id
  std::vector<DeviceId> touched_;
  std::vector<std::optional<Nanos>> low_since_;  // by service
  std::vector<double> unplaced_;
  std::vector<bool> up_;       // by device
  std::vector<double> rates_;  // by service, as last heard
  std::optional<Nanos> last_tick_;
  uint32_t next_id_ = 1;
};

}  // namespace hase::placement

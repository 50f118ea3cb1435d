// What stands on which device while a plan is made, and what one more instance would do to it.
//
// Interference goes both ways: an instance is admitted only if its own objective holds beside the
// residents and every resident's still holds beside it. Memory counts, and so does room for the
// shadow of the largest resident (a share is changed by starting a second instance).
#pragma once

#include <optional>

#include <vector>

#include "placement/plan.h"
#include "placement/services/capacity.h"

namespace hase::placement {

struct Placed {
  uint32_t service = 0;
  const Capacity* capacity = nullptr;
  size_t step = 0;          // of capacity->steps
  Choice choice;            // batch and what it sustains beside the residents
  double factor = 1;        // on its runs, from the residents and the card, margin included
  double rate_rps = 0;      // asked of it
  latency::Neighbour load;  // what it is to its neighbours
  uint32_t id = 0;          // of a running instance; 0 = not started yet
  uint32_t replaces = 0;    // the running instance whose work it takes over; 0 = none
  const ShareStep& share() const { return capacity->steps[step]; }
};

// How a device would stand with one more instance: its residents, some with more share than before,
// and the new one last.
struct Offer {
  double rate_rps = 0;  // served, of what was asked
  int units = 0;        // free share it takes, growth of residents included
  std::vector<Placed> after;
  const Placed& added() const { return after.back(); }
};

class Ledger {
 public:
  struct Limits {
    bool shadow = true;
    size_t residents = 16;  // clients per device
    // A part of a service is given the rate it would sustain with runs this much longer: room for
    // neighbours that come later.
    double slack = 0.1;
  };

  // `table` and its view outlive the ledger.
  explicit Ledger(const CapacityTable& table) : Ledger(table, Limits()) {}
  Ledger(const CapacityTable& table, Limits limits);

  // The least share on the device that serves `rate_rps` of the service and leaves every objective
  // kept; nullopt = none.
  std::optional<Offer> Least(DeviceId device, size_t service, double rate_rps) const;
  // The share of at most `most` steps that serves most per share, whatever that is.
  std::optional<Offer> Densest(DeviceId device, size_t service, double rate_rps) const;
  // Takes an offer made for the device as it stands.
  void Take(DeviceId device, const Offer& offer);
  // Puts an instance there as it is, unchecked (policies with rules of their own).
  void Put(DeviceId device, const Placed& placed);
  void Remove(DeviceId device, size_t position);
  // Takes over an instance of a plan at its share, batch chosen anew; false if its service cannot
  // run there, the device has no room or somebody's objective would break.
  bool Adopt(const Instance& instance, size_t service);
  // Puts these residents there instead of those it has; false, and nothing done, if they do not fit
  // or somebody's objective would break. A device of the same type and mode has carried them.
  bool Install(DeviceId device, std::vector<Placed> residents);
  void SetIdentity(DeviceId device, size_t position, uint32_t id, uint32_t replaces);

  // Deals the free share of every device in use to the residents nearest their limit, then chooses
  // each one's batch anew.
  void DealSpare(DeviceId device);
  void DealSpare();

  // Rate that a resident sustains as things stand.
  double Sustained(DeviceId device, size_t position) const;
  // A resident's new rate: true and applied if it and its neighbours keep their objectives.
  bool SetRate(DeviceId device, size_t position, double rate_rps);
  bool SetStep(DeviceId device, size_t position, size_t step);

  const std::vector<Placed>& On(DeviceId device) const { return devices_[device.index()].placed; }
  cluster::ShareMode Mode(DeviceId device) const { return devices_[device.index()].mode; }
  DeviceTypeId Type(DeviceId device) const { return devices_[device.index()].type; }
  int Free(DeviceId device) const {
    return devices_[device.index()].free;
  }  // milli, or MIG sevenths
  bool Usable(DeviceId device) const { return devices_[device.index()].usable; }
  size_t size() const { return devices_.size(); }
  // Forbids a device (true = may be used).
  void Allow(DeviceId device, bool usable) { devices_[device.index()].usable = usable; }
  // Free share in units of Free() that a step needs.
  static int Units(const ShareStep& step);

  std::vector<Instance> Instances() const;
  const CapacityTable& table() const { return table_; }

 private:
  struct DeviceLedger {
    DeviceTypeId type;
    cluster::ShareMode mode = cluster::ShareMode::kTimeSlice;
    int free = 0;
    double speed = 1;
    Bytes memory;
    bool usable = true;
    std::vector<Placed> placed;
  };
  // Chooses batch and rate of after[i] beside the others; false if it cannot serve its rate.
  bool Settle(const DeviceLedger& d, std::vector<Placed>& after, size_t i,
              const latency::Neighbourhood& all) const;
  std::optional<Offer> OfferStep(const DeviceLedger& d, size_t service, size_t step,
                                 double rate_rps, bool partial) const;
  // Settles everybody in `after` until loads and slow-downs agree: a slowed instance is busy for
  // longer and so slows its neighbours more. Whoever misses its rate gets the next share step where
  // `units` is given (free share taken so far, counted there). False: somebody cannot be served.
  bool Converge(const DeviceLedger& d, std::vector<Placed>& after, int* units) const;
  // Applies `after` if everybody in it keeps its rate.
  bool Stand(DeviceLedger& d, std::vector<Placed> after) const;
  bool SlicesFit(const DeviceLedger& d, const ShareStep& step) const;
  bool MemoryFits(const DeviceLedger& d, std::span<const Placed> residents) const;

  const CapacityTable& table_;
  Limits limits_;
  std::vector<DeviceLedger> devices_;
};

}  // namespace hase::placement

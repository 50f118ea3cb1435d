// Policy inss: placement, share and batch of online services together, so that every objective
// holds and either the throughput is greatest or the cost least.
//
// Stage one places services by demand, largest first: for each, the device and the least share
// that keeps its own objective and every resident's, interference counted both ways; a service that
// no device can carry, or that is served better in parts, gets replicas. Candidates are compared by
// the worth of the share they take (device types weighed by what they serve on average, or by
// price). Stage two deals spare share to whoever is nearest its limit and chooses batches anew.
//
// max-throughput: the rates are scaled by a common factor, the greatest for which stage one
// succeeds (bisection). min-cost: the cheapest set of devices on which it succeeds (enumerated for
// small clusters, greedy removal for large ones). Small problems are tried in several orders.
// Source: the two-stage placement of the InSS paper as docs/design has it; greedy by demand with
// comparative advantage is ours.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "placement/policy.h"
#include "placement/services/ledger.h"

namespace hase::placement {

enum class ServiceObjective { kMaxThroughput, kMinCost, kGivenRates };
Result<ServiceObjective> ParseServiceObjective(std::string_view text);

struct InssOptions {
  ServiceObjective objective = ServiceObjective::kMaxThroughput;
  double margin = 0.7;      // shared standard errors added to run times
  int candidates = 4;       // devices looked at per type and order
  int orders = 24;          // orders tried where services × devices is small
  double precision = 0.01;  // of the common factor
  bool shadow = true;
};

// The cheapest ledger found for these rates, by service, on the devices allowed (by device), the
// margin being the table's; nullptr: none. What is free stays free.
std::unique_ptr<Ledger> CheapestLedger(const CapacityTable& table, std::span<const double> rates,
                                       const std::vector<bool>& allowed,
                                       const InssOptions& options);

class InssPolicy : public ServicePolicy {
 public:
  explicit InssPolicy(InssOptions options) : options_(options) {}
  ServicePlan Decide(const ServiceView& view) override;

 private:
  InssOptions options_;
};

}  // namespace hase::placement

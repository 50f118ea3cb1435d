// Policy: given what is known, what shall happen now? One method. A policy is arithmetic: no
// threads, no I/O, no clock; it may keep indexes and reservations between calls, and a fresh one
// given the same view (everything_changed) must decide the same.
//
// Add a policy: one file in placement/policies/ with the class and its own Options, and its row in
// policies.cc. The command line's help, the contract test and the docs table come from that table.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "placement/plan.h"
#include "placement/view.h"

namespace hase::placement {

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Plan Decide(const PlanningView& view) = 0;
};

class ServicePolicy {
 public:
  virtual ~ServicePolicy() = default;
  virtual ServicePlan Decide(const ServiceView& view) = 0;
};

// name[:key=value[,key=value…]] as given on the command line: "hase:objective=completion".
struct PolicyRow {
  std::string_view name;
  std::string_view help;    // one line
  std::string_view source;  // paper or system
  Result<std::unique_ptr<Policy>> (*make)(std::string_view options);
};
std::span<const PolicyRow> Policies();
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view spec);

}  // namespace hase::placement

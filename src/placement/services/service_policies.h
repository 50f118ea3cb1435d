// The table of service policies: `inss` and its rivals. The command line's help, the acceptance
// bench and the tests walk it. Add one: a file with the class and its source, and its row.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "placement/services/inss.h"

namespace hase::placement {

struct ServicePolicyRow {
  std::string_view name;
  std::string_view help;    // one line
  std::string_view source;  // paper or system
  std::unique_ptr<ServicePolicy> (*make)(ServiceObjective objective);
};
std::span<const ServicePolicyRow> ServicePolicies();
// Usage error naming the known ones.
Result<std::unique_ptr<ServicePolicy>> MakeServicePolicy(std::string_view name,
                                                         ServiceObjective objective);

}  // namespace hase::placement

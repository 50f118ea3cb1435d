#include "placement/policy.h"

#include <fmt/format.h>

namespace hase::placement {

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view spec) {
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view options = colon == std::string_view::npos ? "" : spec.substr(colon + 1);
  std::string names;
  for (const PolicyRow& row : Policies()) {
    if (row.name == name) return row.make(options);
    names += names.empty() ? "" : ", ";
    names += row.name;
  }
  return Usage(fmt::format("no policy is named '{}' (there are: {})", name, names));
}

}  // namespace hase::placement

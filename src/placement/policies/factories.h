// One factory per policy, for the table in policies.cc. Each parses its own options.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "placement/options.h"
#include "placement/policy.h"

namespace hase::placement {

Result<std::unique_ptr<Policy>> MakeRoundRobin(std::string_view options);
Result<std::unique_ptr<Policy>> MakeRandom(std::string_view options);
Result<std::unique_ptr<Policy>> MakeFifo(std::string_view options);
Result<std::unique_ptr<Policy>> MakeLeastLoaded(std::string_view options);
Result<std::unique_ptr<Policy>> MakeLeastAllocated(std::string_view options);
Result<std::unique_ptr<Policy>> MakeMostAllocated(std::string_view options);
Result<std::unique_ptr<Policy>> MakeSjf(std::string_view options);
Result<std::unique_ptr<Policy>> MakeMct(std::string_view options);
Result<std::unique_ptr<Policy>> MakeLptMct(std::string_view options);
Result<std::unique_ptr<Policy>> MakeSptMct(std::string_view options);
Result<std::unique_ptr<Policy>> MakeMinMin(std::string_view options);
Result<std::unique_ptr<Policy>> MakeEdf(std::string_view options);
Result<std::unique_ptr<Policy>> MakeGavelLp(std::string_view options);
Result<std::unique_ptr<Policy>> MakeHase(std::string_view options);

}  // namespace hase::placement

// Which flags of `hase evaluate` go together: each of its modes reads some of them.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace hase::cli {

// Usage error for a flag that the chosen mode would not read.
Status CheckEvaluateMode(const CLI::App& command);

}  // namespace hase::cli

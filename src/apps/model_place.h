// Where a model stands in the file that asked for it, for errors found long after reading.
#pragma once

#include <string>

#include "base/result.h"

namespace hase::apps {

// `error` of `model`, with the place of its first use in the jobs file (CSV, JSON Lines) or
// services file (YAML) at `path` in front: "jobs.csv:2:3 (model): …".
Error AtModel(const std::string& path, const std::string& model, Error error);

}  // namespace hase::apps

// PlanReport: what `hase plan` found, as one HTML file that loads nothing: each device's stacked
// shares, each service's latency by term against its objective, and why each instance is where it
// is. Its numbers are the JSON that `hase plan --json` prints, so page and JSON cannot differ.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hase::measurement {

// `json` is put into the page as it is.
std::string RenderPlanReport(std::string_view json);
Status WritePlanReport(const std::filesystem::path& path, std::string_view json);

}  // namespace hase::measurement

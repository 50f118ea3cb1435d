// Files that are part of the binary: the report's page and its chart library.
#pragma once

#include <string_view>

namespace hase::measurement {

std::string_view ReportPage();
std::string_view PlanPage();
std::string_view ChartLibrary();

}  // namespace hase::measurement

// Files that are part of the binary (assets.cc), and how a page is made of them: every page is one
// file that loads nothing, with the same style, the same chart helpers and its numbers as JSON.
#pragma once

#include <string>
#include <string_view>

namespace hase::measurement {

std::string_view ReportPage();
std::string_view PlanPage();

// Puts shared.css, shared.js, the chart library and `numbers` (JSON) where the page has its marks
// @@STYLE@@, @@SHARED@@, @@ECHARTS@@ and @@DATA@@.
std::string FillPage(std::string_view page, std::string numbers);

}  // namespace hase::measurement

#include "measurement/report/plan_report.h"

#include "base/file.h"
#include "measurement/report/assets.h"

namespace hase::measurement {
namespace {

void Put(std::string& page, std::string_view mark, std::string_view content) {
  if (const size_t at = page.find(mark); at != std::string::npos)
    page.replace(at, mark.size(), content);
}

// Inside a script element only "</" could end it early.
std::string ForScript(std::string text) {
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return text;
}

}  // namespace

std::string RenderPlanReport(std::string_view json) {
  std::string page(PlanPage());
  Put(page, "@@DATA@@", ForScript(std::string(json)));
  Put(page, "@@ECHARTS@@", ChartLibrary());
  return page;
}

Status WritePlanReport(const std::filesystem::path& path, std::string_view json) {
  return WriteFileAtomically(path, RenderPlanReport(json));
}

}  // namespace hase::measurement

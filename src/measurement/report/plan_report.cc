#include "measurement/report/plan_report.h"

#include "base/file.h"
#include "measurement/report/assets.h"

namespace hase::measurement {
std::string RenderPlanReport(std::string_view json) {
  return FillPage(PlanPage(), std::string(json));
}

Status WritePlanReport(const std::filesystem::path& path, std::string_view json) {
  return WriteFileAtomically(path, RenderPlanReport(json));
}

}  // namespace hase::measurement

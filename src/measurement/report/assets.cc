// Put in by the assembler, so that a megabyte of script costs the compiler nothing. HASE_PAGE,
// HASE_PLAN_PAGE and HASE_ECHARTS are paths that CMake passes.
#include "measurement/report/assets.h"

#define HASE_INCLUDE_FILE(symbol, path)                                                      \
  __asm__(".section .rodata\n.global " #symbol "\n.balign 16\n" #symbol ":\n.incbin \"" path \
          "\"\n.global " #symbol "_end\n" #symbol "_end:\n.byte 0\n.text\n")

HASE_INCLUDE_FILE(hase_report_page, HASE_PAGE);
HASE_INCLUDE_FILE(hase_plan_page, HASE_PLAN_PAGE);
HASE_INCLUDE_FILE(hase_echarts, HASE_ECHARTS);

extern "C" {
extern const char hase_report_page[], hase_report_page_end[];
extern const char hase_plan_page[], hase_plan_page_end[];
extern const char hase_echarts[], hase_echarts_end[];
}

namespace hase::measurement {
namespace {
std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}
}  // namespace

std::string_view ReportPage() { return Between(hase_report_page, hase_report_page_end); }
std::string_view PlanPage() { return Between(hase_plan_page, hase_plan_page_end); }
std::string_view ChartLibrary() { return Between(hase_echarts, hase_echarts_end); }

}  // namespace hase::measurement

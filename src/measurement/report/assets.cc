// Put in by the assembler, so that a megabyte of script costs the compiler nothing. HASE_REPORT is
// this folder and HASE_ECHARTS the chart library's file; CMake passes both.
#include "measurement/report/assets.h"

#define HASE_INCLUDE_FILE(symbol, path)                                                      \
  __asm__(".section .rodata\n.global " #symbol "\n.balign 16\n" #symbol ":\n.incbin \"" path \
          "\"\n.global " #symbol "_end\n" #symbol "_end:\n.byte 0\n.text\n")

HASE_INCLUDE_FILE(hase_report_page, HASE_REPORT "/page.html");
HASE_INCLUDE_FILE(hase_plan_page, HASE_REPORT "/plan_page.html");
HASE_INCLUDE_FILE(hase_style, HASE_REPORT "/shared.css");
HASE_INCLUDE_FILE(hase_script, HASE_REPORT "/shared.js");
HASE_INCLUDE_FILE(hase_echarts, HASE_ECHARTS);

extern "C" {
extern const char hase_report_page[], hase_report_page_end[];
extern const char hase_plan_page[], hase_plan_page_end[];
extern const char hase_style[], hase_style_end[];
extern const char hase_script[], hase_script_end[];
extern const char hase_echarts[], hase_echarts_end[];
}

namespace hase::measurement {
namespace {
std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

void Put(std::string& page, std::string_view mark, std::string_view content) {
  if (const size_t at = page.find(mark); at != std::string::npos)
    page.replace(at, mark.size(), content);
}
}  // namespace

std::string_view ReportPage() { return Between(hase_report_page, hase_report_page_end); }
std::string_view PlanPage() { return Between(hase_plan_page, hase_plan_page_end); }

std::string FillPage(std::string_view page, std::string numbers) {
  std::string filled(page);
  Put(filled, "@@STYLE@@", Between(hase_style, hase_style_end));
  Put(filled, "@@SHARED@@", Between(hase_script, hase_script_end));
  Put(filled, "@@ECHARTS@@", Between(hase_echarts, hase_echarts_end));
  // Inside a script element only "</" could end it early.
  for (size_t at = numbers.find("</"); at != std::string::npos; at = numbers.find("</", at + 3))
    numbers.replace(at, 2, "<\\/");
  Put(filled, "@@DATA@@", numbers);  // last: names of users may hold anything
  return filled;
}

}  // namespace hase::measurement

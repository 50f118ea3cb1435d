// The evaluation as one self-contained HTML page: predicted against measured, errors by op class,
// device, size and precision, coverage of the intervals, the worst kernels. Charts by Apache
// ECharts, inlined; the file loads nothing.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "latency/training/evaluation.h"

namespace hase::apps {

struct EvaluationPage {
  std::string title, subtitle;
};

// Points are thinned to some thousands, evenly per group; everything else counts all rows.
std::string RenderEvaluation(const EvaluationPage& page, const latency::Tables& tables,
                             const latency::Evaluation& evaluation);
Status WriteEvaluation(const std::filesystem::path& path, const EvaluationPage& page,
                       const latency::Tables& tables, const latency::Evaluation& evaluation);

}  // namespace hase::apps

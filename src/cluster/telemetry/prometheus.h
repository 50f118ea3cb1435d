// The Prometheus text format (version 0.0.4), as much as exporters write: comments, samples with
// labels, an optional timestamp. A last line without a line feed was cut off: it is dropped and
// `cut_short` says so, since half a number is a wrong number. Any other bad line is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hase::cluster::telemetry {

struct PrometheusSample {
  std::string metric;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;                   // may be NaN or infinite
  std::optional<double> timestamp_s;  // Unix time
  int line = 0;

  std::string_view Label(std::string_view name) const;  // empty if absent
};

struct PrometheusPage {
  std::vector<PrometheusSample> samples;
  bool cut_short = false;
  int lines = 0;
};

// Errors read "NAME:LINE: …".
Result<PrometheusPage> ParsePrometheus(const std::string& name, std::string_view text);

}  // namespace hase::cluster::telemetry

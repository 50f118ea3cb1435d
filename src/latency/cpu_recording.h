// A recording of CPU profiles: the kernels and whole models of one partition as text, from which
// `hase evaluate --cpu --replay` finds the predictor's errors without a machine to measure on, and
// the same ones everywhere.
//
// JSON Lines (docs/formats.md): a first line of machine, device, columns and the number of
// profiles, then one line per model and batch with its kernels as arrays in execution order. The
// sweep of `hase calibrate` is in it under the names of its graphs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "latency/sample.h"

namespace hase::latency {

struct CpuRecording {
  std::string machine, device;
  std::vector<Sample> samples;
};

std::string ToJsonLines(const CpuRecording& recording);
// Errors read "NAME:LINE: …".
Result<CpuRecording> ParseCpuRecording(const std::string& name, std::string_view text);

}  // namespace hase::latency

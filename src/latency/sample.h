// Sample: one measurement of one kernel or one whole model, in the one form that all sources are
// brought to: data sets, our own profiles, imports, finished jobs. samples.db keeps them.
#pragma once

#include <string>

#include "base/units.h"
#include "model/kernel.h"

namespace hase::latency {

struct Sample {
  model::Kernel kernel;  // whole model: op_class kOther, op "Model", flops and bytes summed
  std::string model;     // empty for a lone kernel
  bool whole_model = false;
  int64_t batch = 1;
  std::string device;  // catalogue name, or the name of a CPU partition
  model::Runtime runtime = model::Runtime::kOrtCpu;
  std::string source;     // data set or "profile", "bench", "run": timing conventions differ
  double latency_us = 0;  // median
  double spread = 0;      // (p90 - p10) / p50; 0 = unknown
  int64_t repeats = 1;
  MilliShare share = kWholeDevice;
  Bytes memory_load, memory_run;  // whole models; 0 = not measured
  Nanos load_time;                // whole models; 0 = not measured
};

}  // namespace hase::latency

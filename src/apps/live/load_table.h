// Measuring models beside strangers, for `hase evaluate --load`: workers are loaded once and wait;
// then, stranger by stranger, the counters are read for a second and every model runs beside it.
// The stranger is a process that HASE did not start as its own (bench/stranger.cc detaches itself);
// nothing of what it was told to do reaches a prediction, only the counters do.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "execution/worker/partition.h"
#include "latency/load_rows.h"

namespace hase::live {

struct LoadCase {
  std::string label;
  // Command lines of hase_stranger: "bandwidth 1 1 0" = kind, duty, threads, core or "any".
  std::vector<std::string> strangers;
  bool fitted = false;
  // A tenant that HASE itself placed: runs the first model all the while with this share; the
  // measured model gets `share`. 0 = none.
  double tenant_share = 0, share = 1;
};
// The strangers that the law's constants were fitted on, and those they were not.
std::vector<LoadCase> LoadCases(int machine_cores, const std::vector<int>& cores);

struct LoadModel {
  std::string name;
  std::filesystem::path onnx;
  bool fitted = false;
  latency::Demand demand;
};

struct LoadTableOptions {
  std::filesystem::path stranger;  // the program
  std::string device;
  std::vector<int> cores;
  double quota = 1;
  double run_s = 0.5;  // least solo time of one measurement
  std::function<void(const std::string&)> progress;
};

Result<std::vector<latency::LoadRow>> MeasureLoadTable(const std::vector<LoadModel>& models,
                                                       const std::vector<LoadCase>& cases,
                                                       const LoadTableOptions& options);

}  // namespace hase::live

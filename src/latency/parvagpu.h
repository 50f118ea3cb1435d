// The ParvaGPU profile (SC 2024): one model's processes in one MIG instance of an A100, as share
// surfaces. `time` in a row is of one batch of one process with all processes busy: batch divided
// by the per-process throughput (the file's latency is the same rounded to 1 ms and is kept as
// well).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "latency/share_fit.h"

namespace hase::latency {

struct ParvaRow {
  std::string model;
  SurfacePoint point;
  double latency_s = 0;  // as the file has it
};

// `folder` holds mig_mps_profile.csv (or .xz). Rows of throughput 0 did not fit and are left out;
// `dropped` counts them.
struct ParvaProfile {
  std::vector<ParvaRow> rows;
  int dropped = 0;
};
Result<ParvaProfile> ReadParvaProfile(const std::string& folder);

// The nine points that a model is profiled at, fixed for all models: corners of batch, slice and
// process count, then their middle. (slices, batch, processes).
std::vector<SurfacePoint> ParvaDesign();

// Errors of a model's rows outside the design, of latency at least `least_s` (1 ms rounding).
struct SurfaceError {
  std::string model;
  int fitted = 0, scored = 0;
  double mape = 0;            // against the file's latency
  double mape_unrounded = 0;  // against batch / throughput
};
std::vector<SurfaceError> ScoreParva(const ParvaProfile& profile, double least_s = 0.01);

}  // namespace hase::latency

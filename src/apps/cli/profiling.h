// Profiling a list of (model, batch) pairs on a cluster's CPU partitions, into samples.db. Used by
// `hase profile` and `hase demo`.
//
// Kernel times and whole-model times are taken on the reference partition of each core count: the
// one with the greatest quota. A smaller quota scales every term by 1 / quota but for a few per
// cent of throttling loss, so the other partitions measure only the `probes` quickest pairs,
// whole-model, from which the predictor learns that loss (docs/decisions/0123-profile-once.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/machine.h"
#include "base/result.h"
#include "execution/worker/profile.h"
#include "model/library.h"

namespace hase::cli {

struct ProfilePlan {
  std::vector<std::string> models;  // zoo names or .onnx files
  std::vector<int64_t> batches = {1};
  std::string device;  // empty = all CPU partitions as above; else this one, in full
  int probes = 2;
  bool force = false;     // measure again what is stored
  bool calibrate = true;  // measure the basic sweep of kernels where there is none
  int rounds = 1;         // workers of each kind per pair; medians over them
  Nanos min_time = FromMillis(500);
  Nanos max_time = FromSeconds(10);
  std::string state;
};

struct ProfileRow {
  std::string model, device;
  int64_t batch = 1;
  bool stored = false;  // was there already
  latency::Sample whole = {};
  int kernels = 0, missing = 0;
  double factor = 0, unmatched = 0;
};

Result<std::vector<ProfileRow>> RunProfiles(
    const Machine& machine, latency::SampleStore& store, model::ModelLibrary& library,
    const ProfilePlan& plan, const std::function<void(const std::string&)>& progress);

}  // namespace hase::cli

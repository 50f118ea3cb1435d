// The demo's measurements: micro-benchmarks of each device and the profiles of some pairs, all into
// the demo's own samples.db, so that what it predicts from is exactly what it says.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/live/demo_jobs.h"
#include "base/result.h"
#include "cluster/device.h"
#include "latency/sample_store.h"
#include "model/library.h"

namespace hase::live {

struct DemoMeasuring {
  std::filesystem::path state;
  bool quick = false;
  // Told what is measured next, and how much of all is done.
  std::function<void(const std::string& what, double done)> progress;
};

// Benchmarks go into cluster.types and the store, samples into the store. Every profiled pair is
// measured on the fastest device (with its kernels), and two of them on every other device, which
// shows what a quota costs beyond its fraction.
Status MeasureForDemo(const DemoMeasuring& options, model::ModelLibrary& library,
                      cluster::Cluster& cluster, latency::SampleStore& store);

}  // namespace hase::live

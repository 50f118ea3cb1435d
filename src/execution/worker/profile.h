// Profiling one (model, batch) in one partition: the Samples the predictor learns from.
//
// Whole-model time, load time and both memory peaks come from a worker whose profiler is off; a
// profiler can triple a small model's time. Kernel times come from a second worker with ONNX
// Runtime's profiler on, and are then scaled by one factor so that they sum to the whole-model
// time: the profiler tells how the time divides, not how long it is. The factor is kept.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "execution/worker/measure.h"
#include "execution/worker/partition.h"
#include "latency/sample.h"
#include "model/kernel.h"

namespace hase::execution {

struct ProfileRequest {
  std::filesystem::path onnx;
  const model::ModelKernels* kernels = nullptr;  // of runtime ort-cpu, at the batch to be measured
  std::string device;                            // name the samples carry
  bool kernel_times = true;                      // else whole-model only
  MeasureOptions measure = {};
  // Pairs of workers, in turn; medians over them stand. What a worker's memory happens to lie on,
  // and strangers on the machine, change times from worker to worker more than from run to run.
  int rounds = 1;
  std::filesystem::path scratch;  // for ONNX Runtime's profile, deleted once read
};

// Above this part of unmatched time no kernel samples are made: the kernel list is of another graph
// than the one that ran.
constexpr double kMostUnmatched = 0.1;

struct ProfileResult {
  latency::Sample whole;
  std::vector<latency::Sample> kernels;  // empty without kernel_times, or if too much is unmatched
  double factor = 0;                     // whole-model time over the sum of profiled node times
  double unmatched = 0;  // part of the profiled time in nodes the kernel list does not have
  int missing = 0;       // kernels of the list that the profile does not have
};

Result<ProfileResult> ProfileModel(const Partition& partition, const ProfileRequest& request);

// Node times of several workers: medians by name, in the first one's order; runs added up.
std::vector<model::ort::NodeTime> MedianNodes(
    const std::vector<std::vector<model::ort::NodeTime>>& rounds);

// The arithmetic alone: node times onto kernels by name (what has no name of its own by operator
// and output shape, in execution order), scaled to sum to `whole_us`.
ProfileResult Reconcile(const model::ModelKernels& kernels,
                        const std::vector<model::ort::NodeTime>& nodes, double whole_us);

}  // namespace hase::execution

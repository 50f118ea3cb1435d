// Job: batch inference that comes, runs and leaves. Service: online inference that stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "model/kernel.h"

namespace hase::workload {

enum class Sharing : uint8_t { kNever, kSameOwner, kAny };

struct Job {
  std::string job_id;
  std::string model;  // zoo name, .onnx or .kernels.json
  int64_t batch = 1;
  int64_t inputs = 1;  // total; the last batch may be partial
  Nanos arrival;
  int priority = 0;               // greater first
  std::optional<Nanos> deadline;  // absolute
  std::string owner;
  int max_parallel = 1;  // > 1: may be cut over that many devices
  int gang = 1;          // needs that many devices at once
  Sharing sharing = Sharing::kAny;
  std::vector<std::string> device_types;  // empty = any
  std::optional<model::Runtime> runtime;  // empty = the device's own
  model::Precision precision = model::Precision::kFp32;
  int host_cores_milli = 0;  // from traces that state them; 0 = not counted
  Bytes host_memory;
};

struct RatePoint {
  Nanos time;
  double rate_rps = 0;
};

struct Service {
  std::string name;
  std::string model;
  std::vector<RatePoint> rate;  // at least one; holds until the next point
  double slo_ms = 0;
  double slo_percentile = 0.99;  // fraction
  int64_t max_batch = 64;
  std::optional<model::Runtime> runtime;
  model::Precision precision = model::Precision::kFp32;
};

}  // namespace hase::workload

// What an executor and its worker process say to each other: one JSON text per packet of a
// SOCK_SEQPACKET socket pair, so messages have edges and no half line is ever read. A worker may
// have run a hostile model, so whatever it sends is parsed as input from outside.
//
//   executor → worker   load, run, stop
//   worker → executor   loaded, chunk …, beat …, profile, done | failure
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ort/session.h"

namespace hase::execution {

struct LoadRequest {
  std::string model;  // path of an .onnx file
  int64_t batch = 1;
  int threads = 0;  // 0 = one per core of the partition
  model::ort::Provider provider = model::ort::Provider::kCpu;
  int cuda_device = 0;
  model::ort::Optimisation optimisation = model::ort::Optimisation::kAll;
  std::vector<std::pair<std::string, int64_t>> dimensions = {};
  // Runs that are thrown away after loading. Jobs take none: their first batch counts as work.
  int warm_up = 0;
  std::string profile_prefix = {};  // not empty: ONNX Runtime's profiler is on
  MilliShare duty = kWholeDevice;   // the part of its time the worker may take (Partition::duty)
  Bytes memory_limit = {};          // RLIMIT_AS beyond the start; 0 = a generous default
  int time_limit_s = 0;             // of loading; 0 = none
};

// Runs ceil(inputs / batch) batches; the last one is filled up. A chunk is reported every
// `chunk_inputs`, and a stop is heeded there.
struct RunRequest {
  int64_t inputs = 0;
  int64_t chunk_inputs = 0;  // 0 = all at once
  bool want_times = false;   // each batch's time, not only the quantiles
  bool then_exit = false;
};
struct StopRequest {};  // end at the next chunk's edge (at once where nothing runs)
using Request = std::variant<LoadRequest, RunRequest, StopRequest>;

struct Loaded {
  Nanos load;             // from the start of the process to ready inputs
  Nanos create, warm_up;  // making the session; the warm-up runs (not in `load`)
  Bytes baseline, peak;   // resident before loading; greatest while loading
};
struct Chunk {
  int64_t inputs = 0, batches = 0;
  Nanos busy;                     // wall time of the chunk
  Nanos processor;                // processor time in it
  Nanos p10, p50, p90;            // of one batch
  std::vector<Nanos> times = {};  // if wanted; at most kMaxTimes
};
struct Beat {};  // a batch ended: alive
struct Profile {
  std::vector<model::ort::NodeTime> nodes;
};
struct Done {
  Bytes peak;  // greatest while running
};
struct Failure {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string why;
  bool out_of_memory = false;
};
using Message = std::variant<Loaded, Chunk, Beat, Profile, Done, Failure>;

constexpr size_t kMaxTimes = 8192;
constexpr size_t kMaxPacket = size_t{1} << 20;

std::string Encode(const Request& request);
std::string Encode(const Message& message);
Result<Request> DecodeRequest(std::string_view text);
Result<Message> DecodeMessage(std::string_view text);

}  // namespace hase::execution

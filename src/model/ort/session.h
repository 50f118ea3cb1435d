// Session: one model loaded by ONNX Runtime. Nothing else in HASE includes ONNX Runtime's headers;
// its exceptions end here as Results that name the model.
//
// A session serves three users: lowering (optimise, save, read shapes), profiling (run with the
// profiler on) and the worker (run in a loop). Inputs are allocated and filled once by Prepare, so
// a loop of Run calls measures the run alone. Not thread-safe; one session per thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/element_type.h"
#include "model/kernel.h"

namespace hase::model::ort {

enum class Optimisation : uint8_t { kNone, kBasic, kExtended, kAll };
enum class Provider : uint8_t { kCpu, kCuda };
std::string_view ToString(Provider provider);  // "cpu", "cuda"

struct SessionOptions {
  int intra_threads = 1;
  int inter_threads = 1;
  Optimisation optimisation = Optimisation::kAll;
  bool allow_spinning = false;  // spinning threads burn a CPU quota; see docs/limits.md
  Provider provider = Provider::kCpu;
  int cuda_device = 0;
  std::optional<Bytes> arena_limit;  // CUDA: the provider's limit; CPU: the arena's greatest size,
                                     // if this is the first lean or limited session of the process
  // CPU: an arena that grows by what is asked for, and no second block planned for later runs: up
  // to half the memory at the same speed (docs/predictor-cpu.md).
  bool lean = false;
  // Symbolic dimensions to fix, by name ("N" → 8). Names the model lacks are ignored by ORT.
  std::vector<std::pair<std::string, int64_t>> dimensions;
  std::optional<std::filesystem::path> profile_prefix;  // turns the profiler on
  std::optional<std::filesystem::path> save_optimised;  // ORT writes its graph here while loading
  // The saved graph names its weights but does not hold them: they lie in the file `weights`
  // beside.
  bool drop_saved_weights = false;
  // Where a model in memory finds its external weights.
  std::optional<std::filesystem::path> weights_folder;
};

using model::ElementType;

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kOther;
  Shape shape;                       // -1 where unknown
  std::vector<std::string> symbols;  // per dimension its name, empty if fixed or unnamed
};

// What the profiler saw of one node over all profiled runs but the first `skipped` ones.
struct NodeTime {
  std::string name;
  std::string op;
  std::string provider;  // "CPUExecutionProvider" …
  Shape output = {};     // of its first output; empty if the profile does not say
  double p10_us = 0, p50_us = 0, p90_us = 0;
  int64_t runs = 0;
};

class Session {
 public:
  static Result<Session> Create(const std::filesystem::path& model, const SessionOptions& options);
  // A serialised model in memory; `name` is for error messages.
  static Result<Session> Create(std::string_view bytes, const std::string& name,
                                const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;

  // Allocates every input for this batch and fills it from the seed: floats in [-1, 1), integers
  // 0 or 1. The batch stands where an input's first dimension is not fixed. Usage error if the
  // model fixes it to something else; Invalid if another dimension is not fixed (give it in
  // SessionOptions::dimensions).
  Status Prepare(int64_t batch, uint64_t seed = 1);
  // Allocates inputs of exactly these shapes, in inputs()' order.
  Status Prepare(const std::vector<Shape>& shapes, uint64_t seed = 1);
  // One run on the prepared inputs; outputs are dropped. Gives the wall time of the call.
  Result<Nanos> Run();
  // As Run, and gives the outputs' element sums (a cheap check that two sessions agree).
  Result<std::vector<double>> RunAndSum();

  // Stops the profiler (profile_prefix), reads its file, deletes it. In first-execution order.
  Result<std::vector<NodeTime>> EndProfiling(int skipped_runs);

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads a profile that ONNX Runtime wrote. `skipped_runs` first executions of each node are left
// out (they pay for allocation).
Result<std::vector<NodeTime>> ParseProfile(std::string_view json, const std::string& name,
                                           int skipped_runs);

// ONNX Runtime's version, and whether a provider can really be used here (its library loads); the
// error says what to install.
std::string RuntimeVersion();
Status ProviderUsable(Provider provider);

}  // namespace hase::model::ort

// KernelModel: how long one kernel takes alone on one whole device, from the trained trees.
//
//   t = roofline(kernel, device) * exp(g(x))
//   roofline = max(flops / (peak * gain), bytes / bandwidth) + launch
//
// x = shape, tile and wave-quantisation features, precision, device specification, micro-benchmarks
// and the timing convention. The answer is never below flops / (peak * gain), and it carries a
// log-scale error in two parts: one shared by all kernels of a (device, model), one of its own.
//
// The answer is the kernel's time in a stream of kernels: what event pairs around isolated calls
// add is taken off. Timing conventions differ by who measured; each has trees of its own. `Auto`
// takes the one that fits the runtime and has training rows for the kernel's (op class, precision);
// if none has, the nearest is used and the answer is marked extrapolated and widened.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "model/kernel.h"

namespace hase::latency {

struct KernelCalibration;  // calibration.h
struct ModelFile;          // ensemble.h

enum class Convention : uint8_t {
  kTensorRtEngine,     // single-layer TensorRT engines (alibaba_lnas_v100)
  kPyTorchEvents,      // CUDA events around one call, fastest 5 of 25 (neusight)
  kTensorFlowSession,  // wall clock of session.run (cdecatapult)
  kLibraryCall,        // cuDNN / cuBLAS called directly (deepbench)
  kServingGemm,        // bf16 GEMM of an LLM server (aiconfigurator_gemm)
  kKernelProfile,      // profiler's device time, fp16 LLM layers (vidur_gemm)
  kMiopenSolver,       // best solver of AMD's tuning runs (miopen_finddb)
};
constexpr int kConventionCount = 7;
std::string_view ToString(Convention c);

// The device as the model sees it. `bench` may be null: estimated from the specification.
struct KernelTarget {
  const cluster::DeviceSpec* spec = nullptr;
  const cluster::MicroBenchmarks* bench = nullptr;
  model::Runtime runtime = model::Runtime::kOrtCuda;
  std::optional<Convention> convention = std::nullopt;  // nullopt: Auto
  // The runtime's libraries are of 2016 or so: they lack the better kernels for 3×3 convolutions.
  bool old_libraries = false;
  // How far into its session a measurement came, 0 to 1: convolutions by PyTorch's events cost the
  // host the more the more shapes it had met. 0, a fresh process, is what predictions mean.
  double session_place = 0;
  // The device's own correction (calibration.h); null: none.
  const KernelCalibration* calibration = nullptr;
};

struct KernelOutput {
  double latency_us = 0;  // median
  double p10_us = 0, p90_us = 0;
  double shared_sigma = 0, independent_sigma = 0;  // log scale
  double roofline_us = 0;
  double compute_us = 0;  // flops / (peak * gain): latency_us is never below it
  double memory_us = 0;   // bytes / bandwidth
  double launch_us = 0;
  bool extrapolated = false;
  Convention convention = Convention::kPyTorchEvents;
};

class KernelModel {
 public:
  // Reads predictor.bin (or .xz) as `hase train` writes it. Errors name the file and what is wrong.
  static Result<KernelModel> Load(const std::filesystem::path& path);
  // data/predictor.bin.
  static Result<KernelModel> LoadShipped();
  static KernelModel FromFile(ModelFile file);
  // No trees: the roofline times a constant per op class. Used where no file is there, and for
  // kernels no family covers; always extrapolated.
  static KernelModel RooflineOnly();

  KernelModel(KernelModel&&) noexcept;
  KernelModel& operator=(KernelModel&&) noexcept;
  ~KernelModel();

  KernelOutput Predict(const model::Kernel& kernel, const KernelTarget& target) const;
  // As Predict on each; out.size() == kernels.size(). Faster: trees are walked for many kernels at
  // a time.
  void PredictMany(std::span<const model::Kernel* const> kernels, const KernelTarget& target,
                   std::span<KernelOutput> out) const;

  // What the trees look at, for --explain: (feature name, value).
  std::vector<std::pair<std::string, double>> Explain(const model::Kernel& kernel,
                                                      const KernelTarget& target) const;
  // When and from what it was trained, one line.
  std::string Describe() const;
  const ModelFile& file() const;

  struct Impl;

 private:
  explicit KernelModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The physical part alone.
struct Roofline {
  double compute_us = 0, memory_us = 0, launch_us = 0;
  double total_us() const { return (compute_us > memory_us ? compute_us : memory_us) + launch_us; }
};
// The peak that a kernel of this precision meets, TFLOP/s.
double PeakTflops(const cluster::DeviceSpec& spec, model::Precision precision);
// peak: of the kernel's precision; a precision without a peak of its own falls back to the next
// wider one the device has.
Roofline ComputeRoofline(const model::Kernel& kernel, const cluster::DeviceSpec& spec,
                         double launch_us);

}  // namespace hase::latency

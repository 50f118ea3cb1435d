// predict_bench: wall time of a prediction with the graph loaded: the trained file read, one model
// on one (device, batch) through the whole predictor (features, trees, sums, memory), and a model
// on eight devices at six batches each. Nothing is memoised between the calls.
//
//   predict_bench [MODEL] [--runs N]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/paths.h"
#include "cluster/catalogue.h"
#include "cluster/micro_benchmarks.h"
#include "latency/ensemble.h"
#include "latency/predictor.h"
#include "model/library.h"

namespace hase::latency {
namespace {

using Clock = std::chrono::steady_clock;

double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

constexpr int64_t kBatches[] = {1, 2, 4, 8, 16, 32};
constexpr const char* kDevices[] = {
    "T4", "V100-PCIE-32GB", "A100-PCIE-80GB", "P4", "L4", "H100-SXM5-80GB", "A10", "RTX-3090"};

struct Case {
  std::string label;
  std::vector<DeviceTypeId> types;
  std::vector<int64_t> batches;
};

template <typename T>
T Must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

int Main(const std::string& name, int runs) {
  const auto data = Must(DataDir());
  const auto catalogue = Must(cluster::Catalogue::Load());
  auto begin = Clock::now();
  const KernelModel trained = Must(KernelModel::LoadShipped());
  fmt::print("reading the trained file     {:8.2f} ms\n", MillisSince(begin));
  model::ModelLibrary library(data);
  const LibraryKernels kernels(&library);
  std::vector<cluster::DeviceType> types;
  std::vector<ModelId> ids;
  std::vector<Case> cases;
  for (const auto runtime : {model::Runtime::kOrtCuda, model::Runtime::kTensorRt}) {
    Case all{fmt::format("8 devices x 6 batches, {}", ToString(runtime)), {}, {}};
    all.batches.assign(std::begin(kBatches), std::end(kBatches));
    const auto id = Must(library.Intern({.name = name, .runtime = runtime}));
    for (const int64_t batch : kBatches) Must(library.Kernels(id, runtime, batch));
    for (const char* device : kDevices) {
      cluster::DeviceType type;
      type.spec = Must(catalogue.Find(device));
      type.bench = cluster::EstimateMicroBenchmarks(type.spec);
      type.runtime = runtime;
      type.name = fmt::format("{}/{}", device, ToString(runtime));
      all.types.emplace_back(static_cast<uint32_t>(types.size()));
      if (types.size() % 8 == 1 || types.size() % 8 == 4) {
        cases.push_back({fmt::format("batch 8 on {}", type.name), {all.types.back()}, {8}});
      }
      types.push_back(type);
      ids.push_back(id);
    }
    cases.push_back(std::move(all));
  }
  for (const Case& c : cases) {
    std::vector<double> took;
    for (int run = 0; run < runs; ++run) {
      const Predictor predictor(&kernels, types, {}, {.kernel_model = &trained});
      begin = Clock::now();
      for (const auto type : c.types) {
        for (const int64_t batch : c.batches) {
          if (predictor.Find(ids[type.index()], type, batch) == nullptr) {
            fmt::print(stderr, "{}\n", predictor.WhyNot(ids[type.index()], type, batch));
            return 1;
          }
        }
      }
      took.push_back(MillisSince(begin));
    }
    const double first = took[0];
    std::ranges::sort(took);
    fmt::print("{:<38} first {:8.2f} ms, median {:7.3f} ms, best {:7.3f} ms\n", c.label, first,
               took[took.size() / 2], took[0]);
  }
  return 0;
}

}  // namespace
}  // namespace hase::latency

int main(int argc, char** argv) {
  std::string model = "resnet50";
  int runs = 25;
  CLI::App app("Time of estimates, model file to answer (docs/predictor.md)", "predict_bench");
  app.add_option("MODEL", model)->capture_default_str();
  app.add_option("--runs", runs, "Median of so many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  CLI11_PARSE(app, argc, argv);
  return hase::latency::Main(model, runs);
}

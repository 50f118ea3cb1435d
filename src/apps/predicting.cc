#include "apps/predicting.h"

#include <algorithm>

#include "base/paths.h"

namespace hase::apps {

Result<std::unique_ptr<Predicting>> Predicting::Make(const model::ModelLibrary* library,
                                                     std::vector<cluster::DeviceType> types,
                                                     std::vector<latency::Sample> samples,
                                                     std::vector<std::string> without) {
  std::unique_ptr<Predicting> made(new Predicting(library));
  latency::Predictor::Options options;
  options.without = std::move(without);
  const bool gpu = std::ranges::any_of(
      types, [](const auto& t) { return t.spec.kind == cluster::DeviceKind::kGpu; });
  if (gpu) {
    const auto file = DataFile("predictor.bin");
    if (file) {
      HASE_ASSIGN_OR_RETURN(auto trees, latency::KernelModel::Load(*file));
      made->trees_ = std::make_unique<latency::KernelModel>(std::move(trees));
      options.kernel_model = made->trees_.get();
    } else {
      made->notes_.emplace_back(
          "no trained predictor is installed (data/predictor.bin): GPU times are roofline "
          "estimates");
    }
  }
  const bool guessed = std::ranges::any_of(types, [](const auto& t) {
    return t.spec.kind == cluster::DeviceKind::kCpu && !t.bench.measured;
  });
  const bool sampled = std::ranges::any_of(
      samples, [](const auto& s) { return s.runtime == model::Runtime::kOrtCpu; });
  if (guessed && !sampled) {
    made->notes_.emplace_back(
        "no measurement of this machine: its times are rough; `hase bench` and `hase profile` make "
        "them good");
  }
  HASE_ASSIGN_OR_RETURN(options.cpu_memory, latency::ShippedCpuMemoryLaw());
  made->predictor_ = std::make_unique<latency::Predictor>(&made->kernels_, std::move(types),
                                                          std::move(samples), std::move(options));
  return made;
}

}  // namespace hase::apps

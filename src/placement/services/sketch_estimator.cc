#include "placement/services/sketch_estimator.h"

#include <algorithm>
#include <cmath>

namespace hase::placement {
namespace {

struct Sketch {
  const char* name;
  double gmacs, mega_params, mega_activations;  // per image
  int kernels;
};
// gmacs and parameters as published (torchvision, Ultralytics); activations in millions of elements
// written (timm's benchmark table), kernels = layers after fusion, rounded.
constexpr Sketch kSketches[] = {
    {"resnet18", 1.814, 11.7, 2.5, 30},          {"resnet34", 3.664, 21.8, 3.7, 54},
    {"resnet50", 4.089, 25.6, 11.1, 75},         {"resnet101", 7.801, 44.5, 16.2, 140},
    {"resnet152", 11.514, 60.2, 22.6, 210},      {"vgg11", 7.609, 132.9, 7.4, 20},
    {"vgg13", 11.308, 133.0, 12.3, 24},          {"vgg16", 15.47, 138.4, 13.6, 30},
    {"vgg19", 19.632, 143.7, 14.9, 36},          {"densenet121", 2.834, 8.0, 6.9, 240},
    {"densenet161", 7.728, 28.7, 11.1, 320},     {"densenet169", 3.36, 14.1, 7.3, 340},
    {"densenet201", 4.291, 20.0, 7.9, 400},      {"mobilenet_v1", 0.569, 4.2, 5.1, 40},
    {"mobilenet_v2", 0.301, 3.5, 6.7, 65},       {"mobilenet_v3_small", 0.057, 2.5, 1.4, 70},
    {"mobilenet_v3_large", 0.217, 5.5, 4.4, 90}, {"yolov3_tiny", 6.65, 8.9, 12.0, 30},
    {"yolov5n", 2.25, 1.9, 20.0, 110},           {"yolov5s", 8.25, 7.2, 40.0, 110},
    {"yolov5m", 24.5, 21.2, 70.0, 150},          {"yolov8n", 4.35, 3.2, 25.0, 100},
    {"yolov8s", 14.3, 11.2, 50.0, 100},          {"yolov8m", 39.45, 25.9, 90.0, 140}};

constexpr double kLaunch = 12e-6, kEfficiency = 0.55, kBandwidth = 0.75;

const Sketch* Lookup(const std::string& name) {
  for (const auto& s : kSketches)
    if (name == s.name) return &s;
  return nullptr;
}

}  // namespace

SketchEstimator::SketchEstimator(std::vector<std::string> models,
                                 std::span<const cluster::DeviceType> types)
    : models_(std::move(models)), types_(types) {}

bool SketchEstimator::Knows(const std::string& model) { return Lookup(model) != nullptr; }

const latency::Estimate* SketchEstimator::Find(ModelId model, DeviceTypeId type,
                                               int64_t batch) const {
  if (batch < 1 || model.index() >= models_.size()) return nullptr;
  const Sketch* sketch = Lookup(models_[model.index()]);
  if (sketch == nullptr) return nullptr;
  auto [found, fresh] = known_.try_emplace({model.index(), type.index(), batch});
  if (!fresh) return &found->second;
  const auto& spec = types_[type.index()].spec;
  const double items = static_cast<double>(batch);
  const double sms = std::max(1, spec.sm_count);
  // A layer of one image fills about thirty SMs of work; more images fill more.
  const double filled = std::min(1.0, 30 * (0.5 + 0.5 * items) / sms);
  const double peak = std::max(0.1, spec.peak_tflops[0]) * 1e12;
  const double compute = 2e9 * sketch->gmacs * items / (peak * kEfficiency * filled);
  const double bytes = 4e6 * (sketch->mega_params + 2 * sketch->mega_activations * items);
  const double dram = bytes / (std::max(1.0, spec.bandwidth_gb_s) * 1e9 * kBandwidth);
  const double launch = kLaunch * sketch->kernels;
  latency::Estimate& e = found->second;
  e.latency_s = compute + 0.6 * dram + launch;
  e.compute_part = compute / e.latency_s;
  e.bandwidth_part = 0.6 * dram / e.latency_s;
  e.launch_part = launch / e.latency_s;
  e.sm_demand = filled * e.compute_part;
  e.dram_demand = std::min(1.0, dram / e.latency_s);
  e.shared_sigma = 0.08;
  e.independent_sigma = 0.02;
  e.load_s = 1.5 + sketch->mega_params / 100;
  e.memory_run =
      MiB(350) + Bytes(static_cast<int64_t>(
                     4e6 * (1.2 * sketch->mega_params + 0.4 * sketch->mega_activations * items)));
  e.memory_load = e.memory_run;
  return &e;
}

std::string SketchEstimator::WhyNot(ModelId model, DeviceTypeId, int64_t) const {
  return model.index() < models_.size() ? "no sketch of " + models_[model.index()]
                                        : "no such model";
}

}  // namespace hase::placement

#include "latency/evidence.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace hase::latency {
namespace {

WholeModel Merge(const std::vector<const Sample*>& samples) {
  WholeModel out;
  std::vector<double> latency, spread, load, deviation;
  for (const Sample* s : samples) {
    latency.push_back(s->latency_us);
    if (s->spread > 0) spread.push_back(s->spread);
    if (s->load_time.value() > 0) load.push_back(ToSeconds(s->load_time));
    out.memory_load = std::max(out.memory_load, s->memory_load);
    out.memory_run = std::max(out.memory_run, s->memory_run);
  }
  out.samples = static_cast<int>(samples.size());
  out.latency_us = MedianOf(latency);
  if (!spread.empty()) out.spread = MedianOf(spread);
  if (!load.empty()) out.load_s = MedianOf(load);
  if (latency.size() > 1) {
    for (const double us : latency) deviation.push_back(std::abs(std::log(us / out.latency_us)));
    out.between = 1.4826 * MedianOf(deviation);
  }
  return out;
}

}  // namespace

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Evidence::Evidence(std::vector<Sample> samples) : samples_(std::move(samples)) {
  std::map<std::pair<Key, int64_t>, std::vector<const Sample*>> groups;
  for (const Sample& s : samples_) {
    if (!(s.latency_us > 0) || s.share != kWholeDevice) continue;
    if (s.whole_model) {
      groups[{Key{s.device, s.runtime, s.kernel.precision, s.model}, s.batch}].push_back(&s);
    } else {
      kernels_[{s.device, s.runtime}].push_back(&s);
    }
  }
  for (const auto& [key, group] : groups) whole_[key.first][key.second] = Merge(group);
}

const Evidence::Batches& Evidence::Of(const std::string& device, model::Runtime runtime,
                                      model::Precision precision, const std::string& model) const {
  static const Batches kNothing;
  const auto it = whole_.find({device, runtime, precision, model});
  return it == whole_.end() ? kNothing : it->second;
}

std::vector<std::string> Evidence::Devices(model::Runtime runtime) const {
  std::set<std::string> names;
  for (const auto& [key, batches] : whole_) {
    if (std::get<1>(key) == runtime) names.insert(std::get<0>(key));
  }
  for (const auto& [key, kernels] : kernels_) {
    if (key.second == runtime) names.insert(key.first);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> Evidence::Models(const std::string& device, model::Runtime runtime,
                                          model::Precision precision) const {
  std::vector<std::string> names;
  for (const auto& [key, batches] : whole_) {
    const auto& [its_device, its_runtime, its_precision, name] = key;
    if (its_device == device && its_runtime == runtime && its_precision == precision) {
      names.push_back(name);
    }
  }
  return names;
}

std::span<const Sample* const> Evidence::Kernels(const std::string& device,
                                                 model::Runtime runtime) const {
  const auto it = kernels_.find({device, runtime});
  if (it == kernels_.end()) return {};
  return it->second;
}

}  // namespace hase::latency

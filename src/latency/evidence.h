// Evidence: the samples of a machine (or of a data set), indexed by what the predictor asks: the
// whole-model times of a (device, model, batch), and the kernels of a device. Several samples of
// one thing count by the median, weighted equally.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "latency/sample.h"

namespace hase::latency {

struct WholeModel {
  double latency_us = 0;
  double spread = 0;   // (p90 - p10) / p50 within a sample, median over samples; 0 = unknown
  double between = 0;  // log deviation between samples; 0 = one sample
  double load_s = 0;   // 0 = not measured
  Bytes memory_load, memory_run;  // greatest seen; 0 = not measured
  int samples = 0;
};

class Evidence {
 public:
  explicit Evidence(std::vector<Sample> samples);

  using Batches = std::map<int64_t, WholeModel>;
  // What was measured of a model on a device, by batch; empty if nothing.
  const Batches& Of(const std::string& device, model::Runtime runtime, model::Precision precision,
                    const std::string& model) const;
  // Names of devices with any sample of this runtime, sorted.
  std::vector<std::string> Devices(model::Runtime runtime) const;
  // Names of models measured whole on a device.
  std::vector<std::string> Models(const std::string& device, model::Runtime runtime,
                                  model::Precision precision) const;
  // Lone kernels; borrowed from this object.
  std::span<const Sample* const> Kernels(const std::string& device, model::Runtime runtime) const;
  size_t size() const { return samples_.size(); }

 private:
  using Key = std::tuple<std::string, model::Runtime, model::Precision, std::string>;
  std::vector<Sample> samples_;
  std::map<Key, Batches> whole_;
  std::map<std::pair<std::string, model::Runtime>, std::vector<const Sample*>> kernels_;
};

// Median of a list that is not empty.
double MedianOf(std::vector<double> values);

}  // namespace hase::latency

// SketchEstimator: an Estimator for tests and benches of the service planners that need no trained
// predictor: a roofline over published multiply-adds, parameters and layer counts. Orders of
// magnitude are right (ResNet-50 on a T4: 8 ms at batch 1, 120 images/s at 16), nothing more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/device.h"
#include "latency/estimator.h"

namespace hase::placement {

class SketchEstimator : public latency::Estimator {
 public:
  // `models[i]` is the name of ModelId(i). `types` outlive the object.
  SketchEstimator(std::vector<std::string> models, std::span<const cluster::DeviceType> types);
  static bool Knows(const std::string& model);

  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override;
  double Slowdown(const latency::Tenant&, DeviceTypeId, std::span<const latency::Tenant>,
                  const latency::ForeignLoad&) const override {
    return 1;  // the service planners use the share law
  }

 private:
  std::vector<std::string> models_;
  std::span<const cluster::DeviceType> types_;
  mutable std::map<std::tuple<uint32_t, uint32_t, int64_t>, latency::Estimate> known_;
};

}  // namespace hase::placement

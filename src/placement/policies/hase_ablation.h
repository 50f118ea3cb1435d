// What policy `hase` sees of the world when parts of its knowledge are switched off, for the
// ablation table.
//
// interference=off: company is believed to cost nothing.
// estimates=spec: one device type's times are known (the first that has an estimate); all others
// are taken from data sheets, as that time × the ratio of the peak fp32 FLOP/s. Memory, loading and
// slow-downs beside others stay as predicted: only the times are at stake. What is left of running
// work is seen through the same glasses: the part that is done is known, its length is not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "latency/estimator.h"
#include "placement/view.h"

namespace hase::placement {

class BlindEstimator final : public latency::Estimator {
 public:
  explicit BlindEstimator(const latency::Estimator& real) : real_(real) {}
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override;
  double Slowdown(const latency::Tenant&, DeviceTypeId, std::span<const latency::Tenant>,
                  const latency::ForeignLoad&) const override {
    return 1;
  }

 private:
  const latency::Estimator& real_;
};

// Keeps copies of what it changes, brought up to date from the view's list of changes.
class SpecificationView {
 public:
  // `view` with its estimator and devices replaced; valid until the next call.
  PlanningView Of(const PlanningView& view);

 private:
  class Times;
  std::shared_ptr<Times> times_;
  std::vector<DeviceState> devices_;
};

}  // namespace hase::placement

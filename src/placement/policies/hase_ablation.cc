#include "placement/policies/hase_ablation.h"

namespace hase::placement {

const latency::Estimate* BlindEstimator::Find(ModelId model, DeviceTypeId type,
                                              int64_t batch) const {
  return real_.Find(model, type, batch);
}
std::string BlindEstimator::WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const {
  return real_.WhyNot(model, type, batch);
}

class SpecificationView::Times final : public latency::Estimator {
 public:
  Times(const latency::Estimator* real, std::span<const cluster::DeviceType> types)
      : real_(real), types_(types) {}
  bool Knows(const PlanningView& view) const {
    return real_ == view.estimator && types_.data() == view.types.data();
  }

  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override {
    const auto [at, fresh] = known_.try_emplace({model.index(), type.index(), batch});
    if (fresh) at->second = Compute(model, type, batch);
    return at->second ? &*at->second : nullptr;
  }
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override {
    return real_->WhyNot(model, type, batch);
  }
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId type,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad& foreign) const override {
    return real_->Slowdown(tenant, type, others, foreign);
  }

  // By data sheet / as predicted.
  double Factor(ModelId model, DeviceTypeId type, int64_t batch) const {
    const latency::Estimate* real = real_->Find(model, type, batch);
    const latency::Estimate* spec = Find(model, type, batch);
    return real && spec && real->latency_s > 0 ? spec->latency_s / real->latency_s : 1;
  }

 private:
  double Peak(DeviceTypeId type) const { return types_[type.index()].spec.peak_tflops[0]; }
  std::optional<latency::Estimate> Compute(ModelId model, DeviceTypeId type, int64_t batch) const {
    const latency::Estimate* real = real_->Find(model, type, batch);
    if (!real) return std::nullopt;
    latency::Estimate spec = *real;
    for (uint32_t t = 0; t < types_.size(); ++t) {
      const latency::Estimate* known = real_->Find(model, DeviceTypeId(t), batch);
      if (!known) continue;
      if (Peak(DeviceTypeId(t)) > 0 && Peak(type) > 0) {
        spec.latency_s = known->latency_s * Peak(DeviceTypeId(t)) / Peak(type);
      }
      break;
    }
    return spec;
  }

  const latency::Estimator* real_;
  std::span<const cluster::DeviceType> types_;
  mutable std::map<std::tuple<uint32_t, uint32_t, int64_t>, std::optional<latency::Estimate>>
      known_;
};

PlanningView SpecificationView::Of(const PlanningView& view) {
  PlanningView result = view;
  if (!times_ || !times_->Knows(view)) {
    times_ = std::make_shared<Times>(view.estimator, view.types);
    result.everything_changed = true;
  }
  const auto refresh = [&](const DeviceState& device) {
    DeviceState& copy = devices_[device.id.index()];
    copy = device;
    for (Resident& r : copy.residents) {
      if (r.left) {
        *r.left = r.left->ScaledBy(times_->Factor(r.tenant.model, device.type, r.tenant.batch));
      }
    }
  };
  if (result.everything_changed || devices_.size() != view.devices.size()) {
    devices_.resize(view.devices.size());
    for (const DeviceState& device : view.devices) refresh(device);
  } else {
    for (const DeviceId id : view.changed_devices) refresh(view.devices[id.index()]);
  }
  result.estimator = times_.get();
  result.devices = devices_;
  return result;
}

}  // namespace hase::placement

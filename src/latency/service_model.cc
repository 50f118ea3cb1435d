#include "latency/service_model.h"

#include <algorithm>
#include <cmath>

namespace hase::latency {
namespace {

// An extrapolated or unprofiled estimate never counts as surer than this.
constexpr double kLeastSigma = 0.02;

uint64_t PairKey(ModelId model, DeviceTypeId type) {
  return (uint64_t{model.index()} << 36) | (uint64_t{type.index()} << 20);
}

}  // namespace

ServiceModel::ServiceModel(const Estimator& estimator, std::span<const cluster::DeviceType> types)
    : estimator_(estimator), types_(types) {}

void ServiceModel::Profile(ModelId model, DeviceTypeId type, std::span<const SurfacePoint> points) {
  const auto base = [&](int64_t batch) {
    const auto found = Base(model, type, batch);
    return found ? found->terms : UnknownModel(batch);
  };
  CorrectionPrior prior;
  prior.law = default_law_;
  corrections_[PairKey(model, type)] = FitCorrection(base, sm_count(type), points, prior);
  batches_.clear();
}

std::optional<ServiceModel::Batch> ServiceModel::Base(ModelId model, DeviceTypeId type,
                                                      int64_t batch) const {
  const Estimate* estimate = estimator_.Find(model, type, batch);
  if (estimate == nullptr) return std::nullopt;
  return Batch{TermsOf(*estimate, default_law_), estimate->memory(), estimate->load_s,
               estimate->extrapolated};
}

const ServiceModel::Batch* ServiceModel::Find(ModelId model, DeviceTypeId type,
                                              int64_t batch) const {
  const Key key = PairKey(model, type) | static_cast<uint64_t>(batch);
  auto [found, fresh] = batches_.try_emplace(key);
  if (fresh) {
    found->second = Base(model, type, batch);
    const auto correction = corrections_.find(PairKey(model, type));
    if (found->second && correction != corrections_.end())
      found->second->terms = correction->second.Apply(found->second->terms, batch);
    if (const auto seen = traffic_.find(PairKey(model, type));
        found->second && seen != traffic_.end())
      found->second->terms.traffic = seen->second;
  }
  return found->second ? &*found->second : nullptr;
}

void ServiceModel::SetTraffic(ModelId model, DeviceTypeId type, int64_t batch, double dram_active) {
  const Batch* found = Find(model, type, batch);
  if (found == nullptr) return;
  ServiceTerms terms = found->terms;
  terms.traffic = 1;
  const double foretold = DramDemand(terms, Law(model, type), sm_count(type), {});
  if (foretold <= 1e-6) return;
  traffic_[PairKey(model, type)] = std::clamp(dram_active / foretold, 0.1, 10.0);
  batches_.clear();
}

ShareLaw ServiceModel::Law(ModelId model, DeviceTypeId type) const {
  const auto correction = corrections_.find(PairKey(model, type));
  ShareLaw law = correction != corrections_.end() ? correction->second.law : default_law_;
  if (const auto measured = neighbours_.find(type.index()); measured != neighbours_.end()) {
    law.crowding = measured->second.crowding;
    law.company = measured->second.company;
    law.heat = measured->second.heat;
    law.burst = measured->second.burst;
    law.doubt = measured->second.doubt;
  }
  return law;
}

double ServiceModel::SharedSigma(ModelId model, DeviceTypeId type) const {
  const auto correction = corrections_.find(PairKey(model, type));
  if (correction != corrections_.end() && correction->second.points > 0)
    return std::max(kLeastSigma, correction->second.residual);
  const Estimate* estimate = estimator_.Find(model, type, 1);
  return std::max(kLeastSigma, estimate ? estimate->shared_sigma : 0.0);
}

int ServiceModel::sm_count(DeviceTypeId type) const {
  const auto& t = types_[type.index()];
  return t.spec.kind == cluster::DeviceKind::kCpu ? 0 : t.spec.sm_count;
}

}  // namespace hase::latency

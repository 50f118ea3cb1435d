// ServiceModel: what the service planners ask about a model on a device type — terms of a batch,
// the share law, memory and load time — from the Estimator, corrected by profile points where there
// are any. Memoised; one object serves every policy, so that all plan from the same information.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "latency/estimator.h"
#include "latency/neighbour_fit.h"
#include "latency/share_fit.h"

namespace hase::latency {

class ServiceModel {
 public:
  // Both outlive the object.
  ServiceModel(const Estimator& estimator, std::span<const cluster::DeviceType> types);

  // Fits this model's surface on this device type to the points (replacing earlier ones).
  void Profile(ModelId model, DeviceTypeId type, std::span<const SurfacePoint> points);

  // DRAM active as counters saw it, of the model alone on the whole device at this batch. After
  // Profile.
  void SetTraffic(ModelId model, DeviceTypeId type, int64_t batch, double dram_active);

  // What neighbours do to each other on this device type, measured in co-runs.
  void SetNeighbours(DeviceTypeId type, const NeighbourLaw& law) {
    neighbours_[type.index()] = law;
  }

  struct Batch {
    ServiceTerms terms;
    Bytes memory;
    double load_s = 0;
    bool extrapolated = false;
  };
  // nullptr: no estimate (Estimator::WhyNot says why).
  const Batch* Find(ModelId model, DeviceTypeId type, int64_t batch) const;
  ShareLaw Law(ModelId model, DeviceTypeId type) const;
  // Log-scale error that all batches of the model on the type share: planning margin.
  double SharedSigma(ModelId model, DeviceTypeId type) const;
  int sm_count(DeviceTypeId type) const;
  const Estimator& estimator() const { return estimator_; }

 private:
  using Key = uint64_t;  // model, type[, batch]
  std::optional<Batch> Base(ModelId model, DeviceTypeId type, int64_t batch) const;

  const Estimator& estimator_;
  std::span<const cluster::DeviceType> types_;
  std::unordered_map<Key, Correction> corrections_;
  std::unordered_map<Key, double> traffic_;
  std::unordered_map<uint32_t, NeighbourLaw> neighbours_;
  ShareLaw default_law_;
  mutable std::unordered_map<Key, std::optional<Batch>> batches_;
};

}  // namespace hase::latency

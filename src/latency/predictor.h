// Predictor: the Estimator that run, demo, simulate, plan and predict use. For a (model, device
// type, batch) it takes the best evidence there is, and says which:
//   1. measured: the whole model at this batch on this device
//   2. measured on another partition of the same CPU, scaled by the partition law
//   3. measured at another batch, scaled kernel by kernel
//   4. its kernels, each measured or interpolated from kernels measured on this device, summed,
//      times what other models' sums were off by
//   5. GPUs never measured: its kernels by the trained trees, plus gaps, copies and overhead
// Deviations come from leave-one-out errors of the same kind of evidence, shrunk to a default while
// there are few.
//
// Memoised per (model, type, batch); not thread-safe. Borrows the models and the kernel model.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/device.h"
#include "latency/cpu_predictor.h"
#include "latency/estimator.h"
#include "latency/evidence.h"
#include "latency/kernel_model.h"
#include "latency/memory_model.h"
#include "latency/slowdown.h"
#include "model/library.h"

namespace hase::latency {

// Where kernels come from: the model library, or a fake in tests.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  virtual Result<const model::ModelKernels*> Kernels(ModelId model, model::Runtime runtime,
                                                     int64_t batch) const = 0;
};
class LibraryKernels final : public KernelSource {
 public:
  explicit LibraryKernels(const model::ModelLibrary* library) : library_(library) {}
  Result<const model::ModelKernels*> Kernels(ModelId model, model::Runtime runtime,
                                             int64_t batch) const override {
    return library_->Kernels(model, runtime, batch);
  }

 private:
  const model::ModelLibrary* library_;
};

class Predictor final : public Estimator {
 public:
  struct Options {
    const KernelModel* kernel_model = nullptr;  // GPUs; nullptr: roofline only
    CpuMemoryLaw cpu_memory = {};
    double cache_penalty = 0.15;  // slowdown.h; CPU and GPU
    bool old_libraries = false;   // GPUs; kernel_model.h
    // Models to predict as if they had never been measured (honest evaluation).
    std::vector<std::string> without = {};
  };
  Predictor(const KernelSource* kernels, std::vector<cluster::DeviceType> types,
            std::vector<Sample> samples, Options options);

  const Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override;
  double Slowdown(const Tenant& tenant, DeviceTypeId type, std::span<const Tenant> others,
                  const ForeignLoad& foreign) const override;
  // The same where the way of sharing is given (`hase predict --mode`), not the device's usual one.
  // Exclusive: as if the others were not there.
  double SlowdownIn(cluster::ShareMode mode, const Tenant& tenant, DeviceTypeId type,
                    std::span<const Tenant> others, const ForeignLoad& foreign) const;

  // As Find, with the kernels listed (scaled so that they sum to the latency without copies and
  // overhead), not memoised.
  Result<Estimate> Explain(ModelId model, DeviceTypeId type, int64_t batch) const;
  const cluster::DeviceType& type(DeviceTypeId id) const { return types_[id.index()]; }

 private:
  struct Key {
    ModelId model;
    DeviceTypeId type;
    int64_t batch;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const noexcept {
      return (static_cast<size_t>(k.model.index()) * 1000003 + k.type.index()) * 1000003 +
             static_cast<size_t>(k.batch);
    }
  };

  Result<Estimate> Compute(ModelId model, const cluster::DeviceType& type, int64_t batch) const;
  Result<Estimate> ComputeCpu(ModelId id, const model::ModelKernels& model,
                              const cluster::DeviceType& type) const;
  Estimate ComputeGpu(const model::ModelKernels& model, const cluster::DeviceType& type) const;
  double SlowdownBy(const SharingLaw& law, const Tenant& tenant, DeviceTypeId type,
                    std::span<const Tenant> others, const ForeignLoad& foreign) const;
  void FillMemoryAndLoad(const model::ModelKernels& model, const cluster::DeviceType& type,
                         Estimate* estimate) const;

  const KernelSource* source_;
  std::vector<cluster::DeviceType> types_;
  Evidence evidence_;
  Options options_;
  KernelModel roofline_only_;
  CpuPredictor cpu_;
  mutable std::unordered_map<Key, Result<Estimate>, KeyHash> memo_;
};

}  // namespace hase::latency

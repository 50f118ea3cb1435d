// CpuPredictor: a model's time on a CPU partition from the best evidence there is (predictor.h
// lists the kinds). Keeps, per number of cores, the kernel model of the partition whose kernels
// were profiled, and how far sums of kernels were off for models it knows, whole families left out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "latency/evidence.h"
#include "latency/kernel_timer.h"
#include "latency/partition_law.h"

namespace hase::latency {

class CpuPredictor {
 public:
  struct Answer {
    double latency_us = 0;
    double shared_sigma = 0, independent_sigma = 0;
    bool extrapolated = false;
    std::string basis;
    KernelTimes times;  // scaled to sum to latency_us
  };
  // The same model's kernels at another batch.
  using AtBatch = std::function<Result<const model::ModelKernels*>(int64_t batch)>;

  // `without`: models whose samples must not be used.
  CpuPredictor(const Evidence* evidence, std::vector<std::string> without);
  ~CpuPredictor();

  Answer Predict(const model::ModelKernels& model, const cluster::DeviceType& type,
                 const AtBatch& at_batch) const;
  // The factor on times between two partitions; nullopt for names that are none.
  std::optional<PartitionLaw::Ratio> Scale(const std::string& from, const std::string& to) const {
    return partitions_.Between(from, to);
  }

 private:
  struct Machine;
  struct Reference {  // a measurement to start from
    std::string device;
    int64_t batch = 1;
    const WholeModel* whole = nullptr;
    PartitionLaw::Ratio ratio;
  };
  const Machine& MachineFor(const cluster::DeviceType& type) const;
  std::vector<Reference> References(const model::ModelKernels& model,
                                    const cluster::DeviceType& type) const;
  void FromMeasured(const Reference& reference, const model::ModelKernels& model,
                    const Machine& machine, const cluster::DeviceType& type,
                    const AtBatch& at_batch, Answer* answer) const;
  void FromKernels(const Machine& machine, const cluster::DeviceType& type, Answer* answer) const;

  const Evidence* evidence_;
  std::vector<std::string> without_;
  PartitionLaw partitions_;
  mutable std::map<std::string, std::unique_ptr<Machine>> machines_;
};

// What models of one family share in their names: "resnet" of "resnet50", "yolo" of "yolov8n".
std::string FamilyOf(const std::string& model);

}  // namespace hase::latency

// Setting: what a live command needs before anything runs — the machine's devices, the jobs, a file
// to load for every model, and an estimator for them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "execution/backends/local/local_executor.h"
#include "execution/engine.h"
#include "latency/estimator.h"
#include "latency/sample.h"
#include "model/library.h"
#include "model/model_table.h"
#include "workload/job.h"

namespace hase::live {

// The .onnx file of a zoo model (written to STATE/models if it is not there yet) or of a path.
Result<std::filesystem::path> ModelFile(const std::string& model,
                                        const std::filesystem::path& state);

// All models of `jobs`, interned in order of appearance, so that the table's, the library's and the
// files' ids agree; and the jobs as the engine takes them.
struct Models {
  model::ModelTable table;
  std::unique_ptr<model::ModelLibrary> library;
  std::vector<execution::LocalModel> files;  // by ModelId
  std::vector<execution::JobInput> inputs;
};
// `lower`: read and lower every model now (what the predictor needs).
Result<Models> InternModels(const std::vector<workload::Job>& jobs,
                            const std::filesystem::path& state, bool lower);

// The trained predictor over measurements of this machine; keeps what it borrows.
class MachineEstimator : public latency::Estimator {
 public:
  // `samples` as evidence; `models.library` must outlive this.
  static Result<std::unique_ptr<MachineEstimator>> Make(const Models& models,
                                                        const cluster::Cluster& cluster,
                                                        std::vector<latency::Sample> samples);
  ~MachineEstimator() override;
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override;
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId type,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad& foreign) const override;

 private:
  struct State;
  explicit MachineEstimator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// This machine's name in samples.db.
std::string MachineName();

}  // namespace hase::live

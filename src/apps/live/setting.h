// Setting: what a live command needs before anything runs: the jobs, and a file to load for every
// model.
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
// `lower`: read and lower every model now (what the predictor needs). Errors name the place in
// `jobs_file` that the jobs came from, if there is one.
Result<Models> InternModels(const std::vector<workload::Job>& jobs,
                            const std::filesystem::path& state, bool lower,
                            const std::string& jobs_file = {});

// "Intel(R) Xeon(R) Processor, 2 cores, 260 MiB cache": what this machine's samples are filed
// under.
std::string MachineName();

// All samples of this machine in STATE/samples.db; the newest measured micro-benchmarks go into
// `types`. Writes nothing; no file: no samples. Rows that are of no use are told on stderr.
Result<std::vector<latency::Sample>> ReadMeasured(const std::filesystem::path& state,
                                                  std::vector<cluster::DeviceType>& types);

}  // namespace hase::live

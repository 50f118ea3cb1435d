// Measurements that other tools made, brought to Samples (`hase import`):
//
//   trtexec         --exportTimes: one entry per run; a whole-model sample of latencyMs (copy in,
//                   compute, copy out). --exportProfile: layers; samples of the model's kernels
//                   where a layer's name holds a kernel's.
//   perf_analyzer   -f FILE.csv: the row of concurrency 1; server compute (input, infer, output),
//                   without queue and network, which are the server's and not the device's.
//   torch_profiler  export_chrome_trace with record_shapes: device kernels under convolutions and
//                   matrix products, by their operator's shapes; times summed per operator call.
//
// What a file does not say (model, device, batch) the caller says. What a file says that is no
// sample (rows of higher concurrency, operators not understood) is counted and told, not dropped in
// silence. Errors name the file and the line, entry or column.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "latency/sample.h"

namespace hase::latency {

struct ImportLabel {
  std::string model, device;
  int64_t batch = 1;
  model::Runtime runtime = model::Runtime::kTensorRt;
  model::Precision precision = model::Precision::kFp32;
  // The model's kernels for that runtime, for layers; nullptr = unknown.
  const model::ModelKernels* kernels = nullptr;
};

struct Imported {
  std::vector<Sample> samples;
  std::vector<std::string> notes;  // what was left out, and why
};

struct Importer {
  std::string_view name, help;
  // Does the text look like this tool's?
  bool (*recognises)(std::string_view text);
  Result<Imported> (*read)(const std::string& file, std::string_view text,
                           const ImportLabel& label);
};
std::span<const Importer> Importers();
// By name; by content if that is empty. Usage error naming those there are.
Result<const Importer*> FindImporter(const std::string& name, const std::string& file,
                                     std::string_view text);

// The importers, one file each.
Result<Imported> ImportTrtexec(const std::string& file, std::string_view text,
                               const ImportLabel& label);
Result<Imported> ImportPerfAnalyzer(const std::string& file, std::string_view text,
                                    const ImportLabel& label);
Result<Imported> ImportTorchProfiler(const std::string& file, std::string_view text,
                                     const ImportLabel& label);

// What all whole-model samples have in common.
Sample WholeSampleOf(const ImportLabel& label, std::string_view source);
// Median and (p90 - p10) / p50 of a list that is not empty.
void Spread(std::vector<double> us, Sample* sample);

}  // namespace hase::latency

#include "latency/imports/imports.h"

#include <fmt/format.h>

#include <algorithm>

#include "latency/evidence.h"

namespace hase::latency {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool LooksLikeTrtexec(std::string_view text) {
  return Has(text, "\"latencyMs\"") || (Has(text, "\"averageMs\"") && Has(text, "\"count\""));
}
bool LooksLikePerfAnalyzer(std::string_view text) {
  return Has(text.substr(0, text.find('\n')), "Inferences/Second");
}
bool LooksLikeTorchProfiler(std::string_view text) { return Has(text, "\"traceEvents\""); }

constexpr Importer kImporters[] = {
    {"trtexec", "trtexec --exportTimes or --exportProfile (JSON)", LooksLikeTrtexec, ImportTrtexec},
    {"perf_analyzer", "Triton's perf_analyzer -f (CSV)", LooksLikePerfAnalyzer, ImportPerfAnalyzer},
    {"torch_profiler", "torch.profiler export_chrome_trace, record_shapes=True (JSON)",
     LooksLikeTorchProfiler, ImportTorchProfiler},
};

}  // namespace

std::span<const Importer> Importers() { return kImporters; }

Result<const Importer*> FindImporter(const std::string& name, const std::string& file,
                                     std::string_view text) {
  std::string known;
  for (const auto& importer : kImporters) {
    if (name.empty() ? importer.recognises(text) : importer.name == name) return &importer;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", importer.name);
  }
  if (!name.empty()) return Usage(fmt::format("--format: no '{}' (known: {})", name, known));
  return Invalid(fmt::format("{}: not a file of any tool known ({})", file, known));
}

Sample WholeSampleOf(const ImportLabel& label, std::string_view source) {
  Sample s;
  s.whole_model = true;
  s.kernel.op = "Model";
  s.kernel.op_class = model::OpClass::kOther;
  s.kernel.precision = label.precision;
  s.model = label.model;
  s.batch = label.batch;
  s.device = label.device;
  s.runtime = label.runtime;
  s.source = source;
  for (size_t i = 0; label.kernels != nullptr && i < label.kernels->kernels.size(); ++i) {
    const auto& kernel = label.kernels->kernels[i];
    s.kernel.flops += kernel.flops;
    s.kernel.bytes_activations += kernel.bytes_activations;
    s.kernel.bytes_weights += kernel.bytes_weights;
    s.kernel.bytes_written += kernel.bytes_written;
  }
  return s;
}

void Spread(std::vector<double> us, Sample* sample) {
  std::ranges::sort(us);
  const auto at = [&](double p) {
    return us[static_cast<size_t>(p * static_cast<double>(us.size() - 1) + 0.5)];
  };
  sample->latency_us = MedianOf(us);
  sample->repeats = static_cast<int64_t>(us.size());
  sample->spread = us.size() > 1 ? (at(0.9) - at(0.1)) / sample->latency_us : 0;
}

}  // namespace hase::latency

#include "latency/cpu_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cluster/cluster_file.h"

namespace hase::latency {
namespace {

constexpr auto kRuntime = model::Runtime::kOrtCpu;
constexpr double kRunNoise = 0.02;        // run to run of one batch, where unknown
constexpr double kMeasuredSigma = 0.025;  // drift of a machine between one day and the next
constexpr double kBatchSigma = 0.04;      // scaling a whole model over a factor 2 in batch
constexpr double kPriorModelSigma = 0.10, kPriorModels = 3;  // sums of kernels against whole models
constexpr double kBlindSigma = 0.5;                          // nothing measured on this machine

double FlopsPerUs(const cluster::DeviceType& type) {
  const double gflops = std::max({type.bench.gemm_large, type.bench.conv3x3, type.bench.conv1x1});
  return gflops > 0 ? gflops * 1e3 : 50e3;
}
double BytesPerUs(const cluster::DeviceType& type) {
  return type.bench.copy_large > 0 ? type.bench.copy_large * 1e3 : 10e3;
}

void ScaleKernels(KernelTimes* times, double to_us) {
  if (times->sum_us <= 0) return;
  const double factor = to_us / times->sum_us;
  for (auto& kernel : times->kernels) kernel.latency_us *= factor;
  times->sum_us = to_us;
}

// Kernel samples that were taken together: one (model, batch).
using Profiles = std::map<std::pair<std::string, int64_t>, model::ModelKernels>;
Profiles GroupByModel(std::span<const Sample* const> samples) {
  Profiles profiles;
  for (const Sample* s : samples) {
    if (s->model.empty()) continue;
    auto& model = profiles[{s->model, s->batch}];
    model.model = s->model;
    model.batch = s->batch;
    model.precision = s->kernel.precision;
    model.kernels.push_back(s->kernel);
  }
  return profiles;
}

}  // namespace

std::string FamilyOf(const std::string& model) {
  size_t end = 0;
  while (end < model.size() && std::isalpha(static_cast<unsigned char>(model[end]))) ++end;
  std::string family = model.substr(0, end);
  // "yolov8n": the version's v belongs to the number.
  if (end < model.size() && std::isdigit(static_cast<unsigned char>(model[end])) &&
      family.size() > 3 && family.back() == 'v') {
    family.pop_back();
  }
  return family.empty() ? model : family;
}

// The kernels of one partition, and how whole models compare with sums of kernels there.
struct CpuPredictor::Machine {
  std::string device;
  CpuKernelModel kernels;
  double log_gap = 0;  // whole model / sum of kernels, log, of a model never measured
  double sigma = kBlindSigma;
  int models = 0;

  Machine(const Evidence& evidence, std::string name, const cluster::DeviceType& type,
          const std::vector<std::string>& without)
      : device(std::move(name)),
        kernels(Usable(evidence, device, without), FlopsPerUs(type), BytesPerUs(type)) {
    if (kernels.empty()) return;
    kernels.FitDeviations(Usable(evidence, device, without), FamilyOf);
    CompareWholeModels(evidence, type, without);
  }

  static std::vector<const Sample*> Usable(const Evidence& evidence, const std::string& device,
                                           const std::vector<std::string>& without) {
    std::vector<const Sample*> usable;
    for (const Sample* s : evidence.Kernels(device, kRuntime)) {
      if (std::ranges::find(without, s->model) == without.end()) usable.push_back(s);
    }
    return usable;
  }

  void CompareWholeModels(const Evidence& evidence, const cluster::DeviceType& type,
                          const std::vector<std::string>& without) {
    const auto profiles = GroupByModel(Usable(evidence, device, without));
    std::vector<std::string> names;
    for (const auto& [key, profile] : profiles) names.push_back(key.first);
    std::map<std::string, std::vector<double>> gaps;
    for (const auto& [key, profile] : profiles) {
      const auto& whole = evidence.Of(device, kRuntime, profile.precision, key.first);
      const auto it = whole.find(key.second);
      if (it == whole.end()) continue;
      std::vector<std::string> family;
      for (const auto& name : names) {
        if (FamilyOf(name) == FamilyOf(key.first)) family.push_back(name);
      }
      const KernelTimes times = TimeOnCpu(profile, kernels, type, family);
      gaps[key.first].push_back(std::log(it->second.latency_us / times.sum_us));
    }
    std::vector<double> values, deviations;
    for (const auto& [name, list] : gaps) values.push_back(MedianOf(list));
    models = static_cast<int>(values.size());
    const double n = models;
    if (!values.empty()) log_gap = MedianOf(values) * n / (n + 2);
    for (const double v : values) deviations.push_back(std::abs(v - log_gap));
    const double spread = values.empty() ? 0 : 1.4826 * MedianOf(deviations);
    sigma = std::sqrt((n * spread * spread + kPriorModels * kPriorModelSigma * kPriorModelSigma) /
                      (n + kPriorModels));
  }
};

CpuPredictor::CpuPredictor(const Evidence* evidence, std::vector<std::string> without)
    : evidence_(evidence), without_(std::move(without)), partitions_(evidence) {}
CpuPredictor::~CpuPredictor() = default;

const CpuPredictor::Machine& CpuPredictor::MachineFor(const cluster::DeviceType& type) const {
  const auto wanted = ParsePartition(type.name);
  std::string best = type.name;
  double best_score = -1;
  for (const auto& name : evidence_->Devices(kRuntime)) {
    const auto p = ParsePartition(name);
    const auto kernels = evidence_->Kernels(name, kRuntime);
    if (!p || !wanted || kernels.empty()) continue;
    // Same cores first, then the whole cores (a quota distorts short kernels), then most kernels.
    const double score = (p->cores == wanted->cores ? 1e9 : 0) + 1e8 * p->quota +
                         static_cast<double>(kernels.size());
    if (score > best_score) {
      best = name;
      best_score = score;
    }
  }
  auto& machine = machines_[best];
  if (!machine) machine = std::make_unique<Machine>(*evidence_, best, type, without_);
  return *machine;
}

std::vector<CpuPredictor::Reference> CpuPredictor::References(
    const model::ModelKernels& model, const cluster::DeviceType& type) const {
  std::vector<Reference> found;
  if (std::ranges::find(without_, model.model) != without_.end()) return found;
  for (const auto& device : evidence_->Devices(kRuntime)) {
    const auto ratio = partitions_.Between(device, type.name);
    if (!ratio) continue;
    for (const auto& [batch, whole] :
         evidence_->Of(device, kRuntime, model.precision, model.model)) {
      found.push_back({device, batch, &whole, *ratio});
    }
  }
  return found;
}

void CpuPredictor::FromMeasured(const Reference& reference, const model::ModelKernels& model,
                                const Machine& machine, const cluster::DeviceType& type,
                                const AtBatch& at_batch, Answer* answer) const {
  const WholeModel& whole = *reference.whole;
  double log_latency = std::log(whole.latency_us) + reference.ratio.log_factor;
  double variance = reference.ratio.sigma * reference.ratio.sigma +
                    kMeasuredSigma * kMeasuredSigma + whole.between * whole.between;
  answer->basis = fmt::format("measured on {} at batch {}", reference.device, reference.batch);
  if (reference.device != type.name) {
    answer->basis += fmt::format(", × {:.2f} between partitions ({} pairs)",
                                 std::exp(reference.ratio.log_factor), reference.ratio.pairs);
  }
  if (reference.batch != model.batch) {
    const auto there = at_batch(reference.batch);
    double ratio = static_cast<double>(model.batch) / static_cast<double>(reference.batch);
    if (there) {
      const auto times = TimeOnCpu(**there, machine.kernels, type, without_);
      if (times.sum_us > 0) ratio = answer->times.sum_us / times.sum_us;
    }
    const double octaves = std::abs(
        std::log2(static_cast<double>(model.batch) / static_cast<double>(reference.batch)));
    log_latency += std::log(ratio);
    variance += kBatchSigma * kBatchSigma * std::max(octaves, 1.0);
    answer->basis += fmt::format(", × {:.2f} kernel by kernel", ratio);
  }
  answer->latency_us = std::exp(log_latency);
  answer->shared_sigma = std::sqrt(variance);
  // (p90 - p10) / p50 of a log-normal is close to 2.563 sigma.
  answer->independent_sigma = whole.spread > 0 ? whole.spread / 2.563 : kRunNoise;
}

void CpuPredictor::FromKernels(const Machine& machine, const cluster::DeviceType& type,
                               Answer* answer) const {
  // Without kernels the speed comes from the micro-benchmarks; those not measured are whole cores'.
  const bool whole_cores = machine.kernels.empty() && !type.bench.measured;
  const std::string from =
      whole_cores ? cluster::CpuPartitionName(type.cores, kWholeDevice) : machine.device;
  const auto ratio = partitions_.Between(from, type.name).value_or(PartitionLaw::Ratio{});
  answer->latency_us = answer->times.sum_us * std::exp(machine.log_gap + ratio.log_factor);
  // With whole models to compare, their spread holds the kernels' errors as well; take the greater.
  answer->shared_sigma = std::hypot(std::max(machine.sigma, answer->times.own_sigma), ratio.sigma);
  answer->independent_sigma = kRunNoise;
  answer->extrapolated = answer->times.extrapolated || machine.kernels.empty();
  answer->basis = fmt::format(
      "{} kernels, {:.0f} % of their time measured, the rest from {} kernels measured on {}; × "
      "{:.2f} "
      "from {} whole models",
      answer->times.kernels.size(), 100 * answer->times.measured_part, machine.kernels.kernels(),
      machine.device, std::exp(machine.log_gap), machine.models);
  if (from != type.name) {
    answer->basis += fmt::format(", × {:.2f} between partitions", std::exp(ratio.log_factor));
  }
}

CpuPredictor::Answer CpuPredictor::Predict(const model::ModelKernels& model,
                                           const cluster::DeviceType& type,
                                           const AtBatch& at_batch) const {
  const Machine& machine = MachineFor(type);
  Answer answer;
  answer.times = TimeOnCpu(model, machine.kernels, type, without_);
  const auto references = References(model, type);
  const auto cost = [&](const Reference& r) {
    const double octaves =
        std::abs(std::log2(static_cast<double>(r.batch) / static_cast<double>(model.batch)));
    const double scaled = octaves > 0 ? kBatchSigma * kBatchSigma * std::max(octaves, 1.0) : 0;
    return r.ratio.sigma * r.ratio.sigma + scaled;
  };
  const auto best = std::ranges::min_element(references, {}, cost);
  if (best != references.end()) {
    FromMeasured(*best, model, machine, type, at_batch, &answer);
  } else {
    FromKernels(machine, type, &answer);
  }
  ScaleKernels(&answer.times, answer.latency_us);
  return answer;
}

}  // namespace hase::latency

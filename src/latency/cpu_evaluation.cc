#include "latency/cpu_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "latency/cpu_kernel_model.h"
#include "latency/cpu_predictor.h"
#include "latency/evidence.h"
#include "latency/interval_score.h"

namespace hase::latency {
namespace {

constexpr double kP90 = 1.2816;  // standard deviations

void ScoreKernels(const Evidence& evidence, const cluster::DeviceType& type,
                  const std::set<std::string>& family, CpuEvaluation* out) {
  std::vector<const Sample*> known;
  for (const Sample* s : evidence.Kernels(type.name, model::Runtime::kOrtCpu)) {
    if (!family.contains(s->model)) known.push_back(s);
  }
  CpuKernelModel model(known);
  model.FitDeviations(known, FamilyOf);
  const WorkingSets sets = WorkingSetsOf(evidence.Kernels(type.name, model::Runtime::kOrtCpu));
  for (const Sample* s : evidence.Kernels(type.name, model::Runtime::kOrtCpu)) {
    if (!family.contains(s->model) || s->latency_us < kLeastKernelUs) continue;
    const auto t = model.Predict(s->kernel, sets.at({s->model, s->batch}));
    out->kernels.push_back({.model = s->model,
                            .what = std::string(model::ToString(s->kernel.op_class)),
                            .family = FamilyOf(s->model),
                            .batch = s->batch,
                            .observed_us = s->latency_us,
                            .predicted_us = t.latency_us,
                            .p10_us = t.latency_us * std::exp(-kP90 * t.sigma),
                            .p90_us = t.latency_us * std::exp(kP90 * t.sigma),
                            .measured = t.measured});
  }
}

Status ScoreModels(const Evidence& evidence, const cluster::DeviceType& type,
                   const std::set<std::string>& family, const KernelsOf& kernels,
                   CpuEvaluation* out) {
  const CpuPredictor predictor(&evidence, {family.begin(), family.end()});
  for (const auto& name : family) {
    for (const auto& [batch, whole] :
         evidence.Of(type.name, model::Runtime::kOrtCpu, model::Precision::kFp32, name)) {
      HASE_ASSIGN_OR_RETURN(const model::ModelKernels* list, kernels(name, batch));
      const auto answer = predictor.Predict(
          *list, type, [&, &name = name](int64_t at) { return kernels(name, at); });
      const double sigma = std::hypot(answer.shared_sigma, answer.independent_sigma);
      out->models.push_back({.model = name,
                             .what = answer.basis,
                             .family = FamilyOf(name),
                             .batch = batch,
                             .observed_us = whole.latency_us,
                             .predicted_us = answer.latency_us,
                             .p10_us = answer.latency_us * std::exp(-kP90 * sigma),
                             .p90_us = answer.latency_us * std::exp(kP90 * sigma)});
    }
  }
  return {};
}

}  // namespace

void FillReuse(std::vector<Sample>& samples, const KernelsOf& kernels) {
  std::map<std::pair<std::string, int64_t>, std::multimap<std::string, model::Reuse>> lists;
  for (Sample& s : samples) {
    if (s.whole_model || s.source != "profile" || s.kernel.reuse != model::Reuse{}) continue;
    const auto [entry, fresh] = lists.try_emplace({s.model, s.batch});
    if (fresh) {
      if (const auto list = kernels(s.model, s.batch)) {
        for (const auto& kernel : (*list)->kernels) {
          entry->second.emplace(kernel.name, kernel.reuse);
        }
      }
    }
    const auto found = entry->second.find(s.kernel.name);
    if (found == entry->second.end()) continue;
    s.kernel.reuse = found->second;
    entry->second.erase(found);  // of several with one name each takes its own
  }
}

Result<CpuEvaluation> EvaluateCpu(const std::vector<Sample>& samples,
                                  const cluster::DeviceType& type, const KernelsOf& kernels,
                                  bool sweep) {
  CpuEvaluation out;
  std::vector<Sample> kept;
  std::map<std::string, std::set<std::string>> families;
  for (const Sample& s : samples) {
    if (s.device != type.name || s.runtime != model::Runtime::kOrtCpu) continue;
    const bool swept = s.source == "calibrate";
    if (swept && !sweep) continue;
    out.sweep_kernels += swept;
    kept.push_back(s);
    if (!swept && !s.model.empty()) families[FamilyOf(s.model)].insert(s.model);
  }
  if (families.size() < 2) {
    return Usage(fmt::format(
        "{}: profiles of {} model families; a family can be left out of at least two (hase "
        "profile)",
        type.name, families.size()));
  }
  const Evidence evidence(std::move(kept));
  for (const auto& [name, family] : families) {
    ScoreKernels(evidence, type, family, &out);
    HASE_RETURN_IF_ERROR(ScoreModels(evidence, type, family, kernels, &out));
    ++out.folds;
  }
  return out;
}

CpuSummary Summarise(const std::vector<const CpuScore*>& scores) {
  CpuSummary out;
  out.rows = static_cast<int>(scores.size());
  if (scores.empty()) return out;
  const auto n = static_cast<double>(scores.size());
  std::vector<double> errors, misses;
  double mean = 0;
  for (const CpuScore* s : scores) {
    errors.push_back(std::abs(s->predicted_us / s->observed_us - 1));
    misses.push_back(std::log(s->predicted_us / s->observed_us));
    out.mape += errors.back() / n;
    mean += std::log(s->observed_us) / n;
    out.coverage += (s->observed_us >= s->p10_us && s->observed_us <= s->p90_us) / n;
    out.interval_score +=
        IntervalScore(std::log(s->observed_us), std::log(s->p10_us), std::log(s->p90_us)) / n;
  }
  out.median_ape = MedianOf(errors);
  double left = 0, all = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    left += misses[i] * misses[i];
    all += std::pow(std::log(scores[i]->observed_us) - mean, 2);
  }
  out.r2_log = all > 0 ? 1 - left / all : 0;
  // One width for all, the one that covers four fifths of these very rows (in its own favour).
  std::vector<double> sizes;
  for (const double miss : misses) sizes.push_back(std::abs(miss));
  const auto at =
      sizes.begin() + static_cast<ptrdiff_t>(static_cast<double>(sizes.size() - 1) * 0.8);
  std::nth_element(sizes.begin(), at, sizes.end());
  const double half = *at;
  for (const double miss : misses) out.constant_score += IntervalScore(miss, -half, half) / n;
  return out;
}

}  // namespace hase::latency

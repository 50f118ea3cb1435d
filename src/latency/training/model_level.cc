#include "latency/training/model_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/paths.h"
#include "cluster/catalogue.h"
#include "cluster/micro_benchmarks.h"
#include "latency/ensemble.h"
#include "latency/predictor.h"

namespace hase::latency {
namespace {

struct Size {
  double gmacs = 0, activations = 0;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double R2Log(std::span<const double> measured, std::span<const double> predicted) {
  double sum = 0, squares = 0, left = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    const double y = std::log(measured[i]);
    sum += y;
    squares += y * y;
    left += std::pow(y - std::log(predicted[i]), 2);
  }
  const double total = squares - sum * sum / static_cast<double>(measured.size());
  return total > 1e-9 ? 1 - left / total : 0;
}

// a · gmacs + b · activations by least squares of relative errors, without model `except`; both
// coefficients at least 0.
double LinearFit(std::span<const ModelScore* const> scores, std::span<const Size> sizes,
                 size_t except) {
  double gg = 0, ga = 0, aa = 0, g = 0, a = 0;
  int used = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i]->row.model == scores[except]->row.model) continue;
    const double x = sizes[i].gmacs / scores[i]->row.measured_ms;
    const double y = sizes[i].activations / scores[i]->row.measured_ms;
    gg += x * x, ga += x * y, aa += y * y, g += x, a += y;
    ++used;
  }
  if (used < 4) return 0;
  const double det = gg * aa - ga * ga;
  double ka = det > 1e-12 ? (g * aa - a * ga) / det : 0,
         kb = det > 1e-12 ? (a * gg - g * ga) / det : 0;
  if (kb <= 0) ka = g / gg, kb = 0;
  if (ka <= 0) ka = 0, kb = a / aa;
  return ka * sizes[except].gmacs + kb * sizes[except].activations;
}

bool Seen(const KernelModel& model, const std::string& device) {
  return std::ranges::any_of(model.file().ensembles, [&](const Ensemble& e) {
    return e.family == Family::kConv && e.DeviceIndex(device) >= 0;
  });
}

ModelGroup Summarise(std::span<const ModelScore* const> scores) {
  ModelGroup g;
  std::vector<double> ape, errors, fit_ape, measured, predicted, fit_measured, fit;
  double inside = 0;
  for (const auto* s : scores) {
    measured.push_back(s->row.measured_ms);
    predicted.push_back(s->predicted_ms);
    ape.push_back(std::abs(s->predicted_ms / s->row.measured_ms - 1));
    errors.push_back(std::log(s->row.measured_ms / s->predicted_ms));
    g.mape += ape.back();
    inside += s->row.measured_ms >= s->p10_ms && s->row.measured_ms <= s->p90_ms ? 1 : 0;
    if (s->fit_ms <= 0) continue;
    fit_measured.push_back(s->row.measured_ms);
    fit.push_back(s->fit_ms);
    fit_ape.push_back(std::abs(s->fit_ms / s->row.measured_ms - 1));
  }
  const auto n = static_cast<double>(scores.size());
  g.rows = std::ssize(scores);
  g.mape /= n;
  g.coverage = inside / n;
  g.median_ape = Median(ape);
  g.bias = Median(errors);
  g.r2_log = R2Log(measured, predicted);
  g.fit_median_ape = Median(fit_ape);
  if (!fit.empty()) g.fit_r2_log = R2Log(fit_measured, fit);
  return g;
}

}  // namespace

ModelSplit SplitOf(std::string_view zoo_model) {
  return std::ranges::find(kCalibrationNetworks, zoo_model) != std::end(kCalibrationNetworks)
             ? ModelSplit::kCalibration
             : ModelSplit::kTest;
}

Result<ModelEvaluation> EvaluateModels(const ModelRows& rows, const KernelModel& model,
                                       ModelSplit split) {
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  model::ModelLibrary library(data);
  const LibraryKernels kernels(&library);
  std::vector<cluster::DeviceType> types;
  std::vector<std::pair<ModelId, DeviceTypeId>> places;
  ModelEvaluation out;
  for (const auto& row : rows.rows) {
    const auto spec = catalogue.Find(row.device);
    if (!spec) {
      ++out.dropped[fmt::format("{}: device '{}' is not in the catalogue", row.table, row.device)];
      continue;
    }
    cluster::DeviceType type;
    type.spec = *spec;
    type.bench = cluster::EstimateMicroBenchmarks(*spec);
    type.runtime = row.runtime;
    type.name = spec->name;
    HASE_ASSIGN_OR_RETURN(
        const auto id,
        library.Intern({.name = row.model, .runtime = row.runtime, .precision = row.precision}));
    places.emplace_back(id, DeviceTypeId(static_cast<uint32_t>(types.size())));
    types.push_back(type);
    out.scores.emplace_back().row = row;
    out.scores.back().row.device = spec->name;
  }
  const Predictor predictor(&kernels, types, {}, {.kernel_model = &model});
  // Torch7 ran with cuDNN 5.
  const Predictor old(&kernels, types, {}, {.kernel_model = &model, .old_libraries = true});
  std::vector<Size> sizes(out.scores.size());
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<size_t>> groups;
  for (size_t i = 0; i < out.scores.size(); ++i) {
    ModelScore& s = out.scores[i];
    const Predictor& used = s.row.table == "cnn_benchmarks" ? old : predictor;
    const Estimate* e = used.Find(places[i].first, places[i].second, s.row.batch);
    if (e == nullptr) {
      return Invalid(used.WhyNot(places[i].first, places[i].second, s.row.batch));
    }
    s.predicted_ms = 1e3 * e->latency_s;
    s.p10_ms = 1e3 * e->QuantileOfOne(0.1);
    s.p90_ms = 1e3 * e->QuantileOfOne(0.9);
    s.extrapolated = e->extrapolated;
    HASE_ASSIGN_OR_RETURN(const auto* list,
                          library.Kernels(places[i].first, s.row.runtime, s.row.batch));
    sizes[i].gmacs = static_cast<double>(list->macs) / 1e9;
    for (const auto& k : list->kernels) {
      if (k.op_class == model::OpClass::kConv || k.op_class == model::OpClass::kDepthwiseConv) {
        sizes[i].activations +=
            static_cast<double>(k.bytes_written) / (1e6 * BytesPerElement(k.precision));
      }
    }
    groups[{s.row.table, s.row.device, std::string(ToString(s.row.precision))}].push_back(i);
  }
  for (const auto& [key, members] : groups) {
    std::vector<const ModelScore*> scores;
    std::vector<Size> own;
    for (const size_t i : members) {
      scores.push_back(&out.scores[i]);
      own.push_back(sizes[i]);
    }
    for (size_t i = 0; i < members.size(); ++i) {
      out.scores[members[i]].fit_ms = LinearFit(scores, own, i);
    }
    std::erase_if(scores, [&](const auto* s) { return SplitOf(s->row.model) != split; });
    if (scores.empty()) continue;
    ModelGroup group = Summarise(scores);
    std::tie(group.table, group.device, group.precision) = key;
    group.seen = Seen(model, group.device);
    out.groups.push_back(std::move(group));
  }
  std::erase_if(out.scores, [&](const auto& s) { return SplitOf(s.row.model) != split; });
  return out;
}

}  // namespace hase::latency

#include "latency/training/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "latency/interval_score.h"
#include "latency/training/baselines.h"

namespace hase::latency {
namespace {

constexpr size_t kHoldoutRows = 20000;  // scored rows of a held-out device per table, at most

// Rows of one table and one device, ready to be scored together.
struct Bundle {
  size_t table = 0;
  uint16_t device = 0;
  std::vector<uint32_t> rows;
};

struct Predictions {
  std::vector<float> log_ratio, size;
  std::vector<float> experts;  // unseen devices only
  bool seen = true;
};

Predictions Predict(const Ensemble& e, const Table& table, const cluster::DeviceSpec& spec,
                    std::span<const uint32_t> index) {
  Predictions out;
  const auto rows = table.Gather(index);
  out.log_ratio.resize(index.size());
  out.size.assign(index.size(), 0.1F);
  out.seen = e.DeviceIndex(spec.name) >= 0;
  if (out.seen) {
    e.PredictSeen(rows, out.log_ratio);
    e.SizeOf(rows, out.size);
  } else {
    TwinView twins;
    for (const uint32_t i : index) {
      if (const auto* kernel = table.Kernel(i); kernel != nullptr) {
        e.AddTwin(*kernel, spec, twins, -1, table.rows[i].session_place);
      }
    }
    if (twins.trust.size() != index.size()) twins = {};
    e.PredictUnseen(rows, twins, out.log_ratio, &out.experts, &out.size);
    for (float& s : out.size) s = e.UnseenSize(s);
  }
  // What no prediction may beat.
  for (size_t i = 0; i < index.size(); ++i) {
    const TableRow& r = table.rows[index[i]];
    const auto floor = static_cast<float>(std::log(std::max(r.compute_us, 1e-6F) / r.roofline_us));
    out.log_ratio[i] = std::max(out.log_ratio[i], floor);
  }
  return out;
}

CalibrationPoint PointOf(const Ensemble& e, const Table& table, const Predictions& p, size_t i,
                         uint32_t row) {
  CalibrationPoint point;
  point.physics = PhysicsTerms(e.family, table.Row(row));
  const size_t known = e.devices.size();
  if (!p.experts.empty()) {
    point.experts.assign(p.experts.begin() + static_cast<int64_t>(i * known),
                         p.experts.begin() + static_cast<int64_t>((i + 1) * known));
  }
  point.log_error = table.rows[row].log_ratio - p.log_ratio[i];
  point.op_class = static_cast<int>(table.rows[row].op_class);
  return point;
}

// Takes `count` of the rows, evenly over their sorted roofline times, out of `rows`.
std::vector<uint32_t> TakeEvenly(const Table& table, std::vector<uint32_t>& rows, size_t count) {
  std::ranges::sort(rows, [&](uint32_t a, uint32_t b) {
    const float x = table.rows[a].roofline_us, y = table.rows[b].roofline_us;
    return x != y ? x < y : a < b;
  });
  count = std::min(count, rows.size() / 2);
  std::vector<uint32_t> taken, left;
  for (size_t i = 0, next = 0; i < rows.size(); ++i) {
    if (next < count && i == (2 * next + 1) * rows.size() / (2 * count)) {
      taken.push_back(rows[i]);
      ++next;
    } else {
      left.push_back(rows[i]);
    }
  }
  rows = std::move(left);
  return taken;
}

class Evaluator {
 public:
  Evaluator(Tables& tables, const ModelFile& model, const std::unordered_set<uint32_t>& used,
            const EvaluateOptions& options, const Progress& progress)
      : tables_(tables), model_(model), used_(used), options_(options), progress_(progress) {}

  Result<Evaluation> Run() {
    if (options_.holdout_device) HASE_RETURN_IF_ERROR(FindHoldout());
    Ablate();
    for (size_t t = 0; t < tables_.tables.size(); ++t) HASE_RETURN_IF_ERROR(RunTable(t));
    Summarise();
    if (holdout_ >= 0) AddBaselines(tables_, static_cast<size_t>(holdout_), out_);
    return std::move(out_);
  }

 private:
  bool Retrains() const {
    return options_.holdout_device || options_.split == Split::kBlock || !options_.ablate.empty();
  }

  Status FindHoldout() {
    for (size_t d = 0; d < tables_.devices.size(); ++d) {
      if (tables_.devices[d].name == *options_.holdout_device) {
        holdout_ = static_cast<int>(d);
        return {};
      }
    }
    return Usage(
        fmt::format("--holdout-device {}: no row of the data is of it", *options_.holdout_device));
  }

  // Takes away what the ablations name, from every row.
  void Ablate() {
    for (const auto& what : options_.ablate) {
      for (auto& table : tables_.tables) {
        const auto& names = FeatureNames(table.family);
        const size_t shape = ShapeFeatureCount(table.family);
        for (size_t i = 0; i < table.rows.size(); ++i) {
          float* x = table.x.data() + i * table.width;
          for (size_t f = 0; f < table.width; ++f) {
            if (Loses(what, names[f], f >= shape)) x[f] = 0;
          }
          if (what == "roofline") {
            // Trees learn the plain log time.
            table.rows[i].log_ratio = std::log(table.rows[i].latency_us);
            table.rows[i].roofline_us = 1;
            table.rows[i].compute_us = 0;
          }
        }
      }
    }
  }

  static bool Loses(const std::string& what, std::string_view feature, bool identity) {
    const auto starts = [&](std::initializer_list<std::string_view> prefixes) {
      return std::ranges::any_of(prefixes, [&](auto p) { return feature.starts_with(p); });
    };
    if (what == "session") return false;  // not read in the first place
    if (what == "specification") {
      return identity || starts({"balance", "compute_us", "memory_us", "roofline_us"});
    }
    if (what == "roofline") {
      return starts({"balance", "compute_us", "memory_us", "roofline_us", "work_per_launch"});
    }
    return starts({"waste_", "tail_", "waves_", "direct_", "winograd_", "fused_", "best",
                   "transform", "tiled_", "row_tail"});
  }

  Status RunTable(size_t t) {
    const Table& table = tables_.tables[t];
    std::map<uint16_t, Bundle> bundles;
    for (uint32_t i = 0; i < table.rows.size(); ++i) {
      if (!Wanted(table, table.rows[i])) continue;
      Bundle& b = bundles[table.rows[i].device];
      b.table = t;
      b.device = table.rows[i].device;
      b.rows.push_back(i);
    }
    if (bundles.empty()) return {};
    Ensemble retrained;
    const Ensemble* e = model_.Find(table.family, table.convention);
    if (Retrains()) {
      HASE_ASSIGN_OR_RETURN(
          retrained,
          TrainEnsemble(
              tables_, table, {.threads = options_.threads, .sample = options_.sample},
              [&](const Table& of, const TableRow& r) { return !LeftOut(of, r); }, progress_));
      e = &retrained;
    }
    if (e == nullptr || e->trees.empty()) return {};
    const Quantiles constant = ConstantWidth(*e, table);
    for (auto& [device, bundle] : bundles) Score(*e, table, bundle, constant);
    return {};
  }

  bool LeftOut(const Table& table, const TableRow& r) const {
    if (holdout_ >= 0) return r.device == holdout_;
    if (options_.split == Split::kBlock) return table.family == Family::kConv && r.block == 0;
    return false;
  }

  bool Wanted(const Table& table, const TableRow& r) {
    if (holdout_ >= 0) return r.device == holdout_;
    if (options_.split == Split::kBlock) return LeftOut(table, r);
    if (!options_.ablate.empty()) return r.bucket == 0;
    if (used_.contains(r.digest)) {
      ++out_.trained_rows;
      return false;
    }
    if (options_.split == Split::kGeometry && r.bucket != 0) {
      ++out_.out_of_split;
      return false;
    }
    return true;
  }

  // Quantiles of the plain log error on calibration rows: intervals of constant width.
  Quantiles ConstantWidth(const Ensemble& e, const Table& table) const {
    std::vector<uint32_t> index;
    for (uint32_t i = 0; i < table.rows.size(); ++i) {
      if (table.rows[i].bucket == 1 && !LeftOut(table, table.rows[i])) index.push_back(i);
    }
    if (index.size() < 20) return {-0.3, 0.3, 0};
    std::vector<float> predicted(index.size());
    e.PredictSeen(table.Gather(index), predicted);
    std::vector<double> errors;
    for (size_t i = 0; i < index.size(); ++i) {
      errors.push_back(table.rows[index[i]].log_ratio - predicted[i]);
    }
    std::ranges::sort(errors);
    const auto n = static_cast<double>(errors.size() - 1);
    return {errors[static_cast<size_t>(0.1 * n)], errors[static_cast<size_t>(0.9 * n)], 0};
  }

  // Calibration kernels are shared out among the tables of the held-out device: products and
  // convolutions vary more than memory-bound operators.
  size_t CalibrationShare(const Table& of) const {
    const auto weight = [](Family f) { return f == Family::kMemory ? 1 : 3; };
    int total = 0;
    for (const auto& table : tables_.tables) {
      const bool has =
          std::ranges::any_of(table.rows, [&](const TableRow& r) { return r.device == holdout_; });
      if (has) total += weight(table.family);
    }
    return static_cast<size_t>(options_.calibrate * weight(of.family) / std::max(1, total));
  }

  void Score(const Ensemble& e, const Table& table, Bundle& bundle, const Quantiles& constant) {
    const auto& name = tables_.devices[bundle.device].name;
    Correction correction;
    if (holdout_ >= 0 && bundle.rows.size() > kHoldoutRows) {
      std::vector<uint32_t> fewer;
      for (size_t i = 0; i < kHoldoutRows; ++i) {
        fewer.push_back(bundle.rows[i * bundle.rows.size() / kHoldoutRows]);
      }
      bundle.rows = std::move(fewer);
    }
    if (holdout_ >= 0 && options_.calibrate > 0) {
      const auto taken = TakeEvenly(table, bundle.rows, CalibrationShare(table));
      const auto p = Predict(e, table, tables_.devices[bundle.device], taken);
      std::vector<CalibrationPoint> points;
      for (size_t i = 0; i < taken.size(); ++i) {
        points.push_back(PointOf(e, table, p, i, taken[i]));
      }
      correction = Correction::Fit(points);
      out_.calibration_rows += std::ssize(taken);
    }
    const auto p = Predict(e, table, tables_.devices[bundle.device], bundle.rows);
    for (size_t i = 0; i < bundle.rows.size(); ++i) {
      const TableRow& r = table.rows[bundle.rows[i]];
      auto point = PointOf(e, table, p, i, bundle.rows[i]);
      auto bounds = e.IntervalFor(p.size[i], name, r.op_class, r.precision, p.seen);
      double error = point.log_error;
      if (correction.points() > 0) {
        error -= correction.At(point);
        const double half = 1.2815515655446004 * correction.residual();
        bounds = {-half, half};
      }
      out_.scored.push_back({static_cast<uint32_t>(bundle.table), bundle.rows[i], error, bounds.low,
                             bounds.high, point.log_error});
      constant_.push_back(constant);
    }
  }

  void Summarise();

  Tables& tables_;
  const ModelFile& model_;
  const std::unordered_set<uint32_t>& used_;
  const EvaluateOptions& options_;
  const Progress& progress_;
  int holdout_ = -1;
  Evaluation out_;
  std::vector<Quantiles> constant_;  // beside out_.scored
};

void Evaluator::Summarise() {
  std::map<std::tuple<uint32_t, uint16_t, int, int>, std::vector<size_t>> members;
  for (size_t i = 0; i < out_.scored.size(); ++i) {
    const auto& s = out_.scored[i];
    const TableRow& r = tables_.tables[s.table].rows[s.row];
    members[{s.table, r.device, static_cast<int>(r.op_class), static_cast<int>(r.precision)}]
        .push_back(i);
  }
  std::map<std::string, std::map<std::string, std::vector<double>>> headline;
  for (const auto& [key, list] : members) {
    const auto& [t, device, op_class, precision] = key;
    Group g;
    g.data_set = tables_.tables[t].data_set;
    g.device = tables_.devices[device].name;
    g.vendor = tables_.devices[device].vendor;
    g.op_class = ToString(static_cast<model::OpClass>(op_class));
    g.precision = ToString(static_cast<model::Precision>(precision));
    g.rows = std::ssize(list);
    std::vector<double> ape;
    double sum = 0, squares = 0, residual = 0, inside = 0;
    for (const size_t i : list) {
      const auto& s = out_.scored[i];
      const double log_time = std::log(tables_.tables[t].rows[s.row].latency_us);
      ape.push_back(std::abs(std::exp(-s.log_error) - 1));
      sum += log_time;
      squares += log_time * log_time;
      residual += s.log_error * s.log_error;
      inside += s.log_error >= s.low && s.log_error <= s.high ? 1 : 0;
      g.interval_score += IntervalScore(s.log_error, s.low, s.high);
      g.constant_score += IntervalScore(s.log_error, constant_[i].low, constant_[i].high);
      g.mape += ape.back();
      g.uncalibrated_mape += std::abs(std::exp(-s.uncalibrated) - 1);
    }
    const auto n = static_cast<double>(list.size());
    g.mape /= n;
    g.uncalibrated_mape /= n;
    g.interval_score /= n;
    g.constant_score /= n;
    g.coverage = inside / n;
    g.r2_log = 1 - residual / std::max(1e-12, squares - sum * sum / n);
    std::ranges::nth_element(ape, ape.begin() + static_cast<int64_t>(ape.size() / 2));
    g.median_ape = ape[ape.size() / 2];
    out_.mape_mean_of_groups += g.mape;
    const bool session = tables_.tables[t].convention == Convention::kTensorFlowSession;
    if (g.rows >= kHeadlineRows) {
      ++out_.large_groups;
      out_.covered_groups += g.coverage >= 0.76 && g.coverage <= 0.84 ? 1 : 0;
      out_.interval_score_ratio += g.interval_score / g.constant_score;
    }
    if (g.rows >= kHeadlineRows && g.vendor == "NVIDIA" && !session) {
      headline[g.op_class][g.device].push_back(g.mape);
      ++out_.headline_groups;
    }
    out_.groups.push_back(std::move(g));
  }
  if (!out_.groups.empty()) {
    out_.mape_mean_of_groups /= static_cast<double>(out_.groups.size());
  }
  out_.interval_score_ratio /= static_cast<double>(std::max<int64_t>(1, out_.large_groups));
  for (const auto& [op_class, devices] : headline) {
    double of_class = 0;
    for (const auto& [device, mapes] : devices) {
      double of_device = 0;
      for (const double m : mapes) of_device += m;
      of_class += of_device / static_cast<double>(mapes.size());
    }
    out_.headline_mape +=
        of_class / static_cast<double>(devices.size()) / static_cast<double>(headline.size());
  }
}

}  // namespace

Result<Evaluation> Evaluate(Tables& tables, const ModelFile& model,
                            const std::unordered_set<uint32_t>& used,
                            const EvaluateOptions& options, const Progress& progress) {
  return Evaluator(tables, model, used, options, progress).Run();
}

}  // namespace hase::latency

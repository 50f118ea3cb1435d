#include "latency/training/intervals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hase::latency {
namespace {

constexpr size_t kFoldRows = 50000;      // training rows of one half whose errors are looked at
constexpr double kLeastShared = 0.01;    // no two kernels of a model err quite on their own
constexpr double kUnseenFloor = 0.06;    // of the size of an unseen card's error
constexpr size_t kLeftOutRows = 20000;   // training rows of one left-out-device run, at most
constexpr int64_t kLeastCellRows = 150;  // a cell of its own needs so many calibration rows
constexpr double kOutliersAside = 3.0;   // log errors beyond are no part of a shared error

Quantiles QuantilesOf(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  // Conformal ranks: the (n + 1) · p smallest, rounded outwards.
  const auto at = [&](double rank) {
    return values[static_cast<size_t>(std::clamp(rank, 1.0, n)) - 1];
  };
  return {at(std::floor(0.1 * (n + 1))), at(std::ceil(0.9 * (n + 1))),
          static_cast<int64_t>(values.size())};
}

// How large an error may be, from what the features say: trees on the 80 % quantile of log |error|.
Result<Trees> TrainSize(const Table& table, std::span<const uint32_t> index,
                        std::span<const float> errors, int threads) {
  std::vector<float> labels;
  for (const float e : errors) labels.push_back(std::log(std::abs(e) + 0.003F));
  const BoostOptions options{.trees = 160,
                             .depth = 6,
                             .learning_rate = 0.15,
                             .delta = 0.1,
                             .min_child_weight = 20,
                             .row_sample = 0.7,
                             .column_sample = 0.4,
                             .quantile = 0.8,
                             .threads = threads};
  return TrainTrees(table.width, table.Gather(index), labels, {}, options);
}

// Errors on training rows of smaller trees that did not see them: those of even buckets predict the
// odd ones, and the other way round. A geometry's siblings share a bucket.
struct OutOfFold {
  std::vector<uint32_t> index;
  std::vector<float> errors;
};
Result<OutOfFold> CrossErrors(const Table& table, const TrainOptions& options,
                              const RowFilter& filter, const Progress& progress,
                              const std::string& name) {
  OutOfFold out;
  for (const int parity : {0, 1}) {
    const auto part = [&](bool own) {
      return Select(table, [&](const TableRow& r) {
        return r.bucket > kCalibrationBucket && (r.bucket % 2 == parity) == own && filter(table, r);
      });
    };
    auto train = part(true), probe = part(false);
    const auto few = static_cast<size_t>(options.sample);
    Thin(train, few > 0 ? std::min(few, kFoldRows) : kFoldRows, "fold training");
    Thin(probe, few > 0 ? std::min(few, kFoldRows) : kFoldRows, "fold probe");
    if (train.size() < 500 || probe.empty()) return out;
    progress(fmt::format("{}: errors of half {}", name, parity + 1));
    auto boost = OptionsFor(table.family, table.convention, train.size());
    boost.trees = boost.trees * 2 / 5;
    boost.learning_rate = std::min(0.2, boost.learning_rate * 2);
    boost.threads = options.threads;
    HASE_ASSIGN_OR_RETURN(const auto trees, TrainTrees(table.width, table.Gather(train),
                                                       Labels(table, train), {}, boost));
    std::vector<float> predicted(probe.size());
    trees.Predict(table.Gather(probe), predicted);
    for (size_t i = 0; i < probe.size(); ++i) {
      out.index.push_back(probe[i]);
      out.errors.push_back(table.rows[probe[i]].log_ratio - predicted[i]);
    }
  }
  return out;
}

// What errors of like kernels (one card, class, precision and batch) have in common: the mean
// product of two of them, which is the variance of their shared part.
double SharedSigma(const std::map<std::string, std::vector<double>>& groups) {
  double products = 0, pairs = 0;
  for (const auto& [key, errors] : groups) {
    const auto n = static_cast<double>(errors.size());
    if (n < 5) continue;
    double sum = 0, squares = 0;
    for (const double e : errors) {
      const double kept = std::clamp(e, -kOutliersAside, kOutliersAside);
      sum += kept;
      squares += kept * kept;
    }
    // Every group counts by its kernels, not by its pairs.
    products += (sum * sum - squares) / (n - 1);
    pairs += n;
  }
  return std::sqrt(std::max(0.0, products / std::max(1.0, pairs)));
}

// The batch is a feature of convolutions only; elsewhere it is part of the rows.
std::string BatchOf(const Table& table, uint32_t row) {
  if (table.family != Family::kConv) return "";
  return fmt::format("{:.0f}", 2 * table.Row(row)[0] / std::log(2.0));
}

// A card's own quantiles rest on some hundreds of rows. A second estimate of each: those of its
// class over all cards, times how the card's crossed errors (many more) compare with its class's.
// The mean of the two, in the log, is kept.
void Steady(const Tables& tables, const Table& table, const OutOfFold& crossed, Ensemble& e) {
  if (crossed.index.empty()) return;
  std::vector<float> size(crossed.index.size());
  e.SizeOf(table.Gather(crossed.index), size);
  std::map<std::string, std::vector<double>> by_key;
  for (size_t i = 0; i < crossed.index.size(); ++i) {
    const TableRow& r = table.rows[crossed.index[i]];
    for (const auto& key : {tables.devices[r.device].name + "|" + Cell(r), "|" + Cell(r)}) {
      by_key[key].push_back(crossed.errors[i] / size[i]);
    }
  }
  std::map<std::string, Quantiles> wide;
  for (auto& [key, values] : by_key) {
    if (std::ssize(values) >= kLeastCellRows) wide[key] = QuantilesOf(values);
  }
  for (auto& [key, own] : e.seen) {
    const auto bar = key.find('|');
    if (bar == std::string::npos || bar == 0) continue;
    const auto of_class = e.seen.find(key.substr(bar));
    const auto crossed_own = wide.find(key), crossed_class = wide.find(key.substr(bar));
    if (of_class == e.seen.end() || crossed_own == wide.end() || crossed_class == wide.end()) {
      continue;
    }
    const auto mean = [](double direct, double base, double numerator, double denominator) {
      const double other = base * numerator / denominator;
      const bool usable = std::isfinite(other) && direct * other > 0;
      return usable ? std::copysign(std::sqrt(direct * other), direct) : direct;
    };
    own.low =
        mean(own.low, of_class->second.low, crossed_own->second.low, crossed_class->second.low);
    own.high =
        mean(own.high, of_class->second.high, crossed_own->second.high, crossed_class->second.high);
  }
}

}  // namespace

bool SharesShapes(Convention c) {
  return c == Convention::kPyTorchEvents || c == Convention::kServingGemm;
}

Status AddSeenIntervals(const Tables& tables, const Table& table, const TrainOptions& options,
                        const RowFilter& filter, const Progress& progress, Ensemble& e) {
  const auto probe = Select(
      table, [&](const TableRow& r) { return r.bucket == kCalibrationBucket && filter(table, r); });
  if (probe.size() < 20) return {};
  const auto name = fmt::format("{} / {}", ToString(e.family), ToString(e.convention));
  HASE_ASSIGN_OR_RETURN(const auto crossed, CrossErrors(table, options, filter, progress, name));
  if (!crossed.index.empty()) {
    HASE_ASSIGN_OR_RETURN(e.size, TrainSize(table, crossed.index, crossed.errors, options.threads));
  }
  std::vector<float> predicted(probe.size()), size(probe.size());
  const auto rows = table.Gather(probe);
  e.PredictSeen(rows, predicted);
  e.SizeOf(rows, size);
  std::map<std::string, std::vector<double>> by_key, alike;
  for (size_t i = 0; i < probe.size(); ++i) {
    const TableRow& r = table.rows[probe[i]];
    const double error = r.log_ratio - predicted[i];
    const std::string own = tables.devices[r.device].name + "|" + Cell(r);
    for (const auto& key : {own, "|" + Cell(r), std::string()}) {
      by_key[key].push_back(error / size[i]);
    }
    alike[own + "|" + BatchOf(table, probe[i])].push_back(error);
  }
  for (auto& [key, values] : by_key) {
    if (key.empty() || std::ssize(values) >= kLeastCellRows) e.seen[key] = QuantilesOf(values);
  }
  Steady(tables, table, crossed, e);
  e.shared_sigma = std::max(kLeastShared, SharedSigma(alike));
  return {};
}

Status AddUnseenIntervals(const Tables& tables, const Table& table, const TrainOptions& options,
                          const RowFilter& filter, const Progress& progress, Ensemble& e) {
  std::map<std::string, std::vector<double>> by_class, plain;
  std::vector<double> biases;
  e.unseen_floor = kUnseenFloor;
  for (size_t d = 0; d < tables.devices.size(); ++d) {
    if (tables.devices[d].vendor != "NVIDIA" || e.DeviceIndex(tables.devices[d].name) < 0) continue;
    auto train = Select(table, [&](const TableRow& r) {
      return r.bucket > kCalibrationBucket && r.device != d && filter(table, r);
    });
    auto probe = Select(table, [&](const TableRow& r) {
      return r.bucket == kCalibrationBucket && r.device == d && filter(table, r);
    });
    if (train.size() < 500 || probe.size() < 50) continue;
    const auto few = static_cast<size_t>(options.sample);
    Thin(train, few > 0 ? std::min(few, kLeftOutRows) : kLeftOutRows, "left-out training");
    Thin(probe, 4000, "left-out probe");
    progress(fmt::format("{} / {}: without {}", ToString(e.family), ToString(e.convention),
                         tables.devices[d].name));
    auto boost = OptionsFor(e.family, e.convention, train.size());
    boost.trees = std::min(boost.trees, 100);
    boost.depth = std::min(boost.depth, 8);
    boost.learning_rate = 0.12;
    boost.threads = options.threads;
    Ensemble small;
    small.family = e.family;
    small.devices = e.devices;
    small.identities = e.identities;
    small.specs = e.specs;
    HASE_ASSIGN_OR_RETURN(
        small.trees, TrainTrees(table.width, table.Gather(train), Labels(table, train), {}, boost));
    std::vector<float> predicted(probe.size());
    std::vector<float> spread;
    TwinView twins;
    const int except = e.DeviceIndex(tables.devices[d].name);
    for (const uint32_t i : probe) {
      if (const auto* kernel = table.Kernel(i); kernel != nullptr) {
        small.AddTwin(*kernel, tables.devices[d], twins, except, table.rows[i].session_place);
      }
    }
    if (twins.trust.size() != probe.size()) twins = {};
    small.PredictUnseen(table.Gather(probe), twins, predicted, nullptr, &spread, except);
    double sum = 0;
    for (size_t i = 0; i < probe.size(); ++i) {
      const TableRow& r = table.rows[probe[i]];
      const double error = r.log_ratio - predicted[i];
      sum += std::clamp(error, -kOutliersAside, kOutliersAside);
      for (const auto& key : {std::string(ToString(r.op_class)), std::string()}) {
        by_class[key].push_back(error / e.UnseenSize(spread[i]));
        plain[key].push_back(error);
      }
    }
    biases.push_back(sum / static_cast<double>(probe.size()));
  }
  for (auto& [key, values] : by_class) e.unseen[key] = QuantilesOf(values);
  for (auto& [key, values] : plain) e.unseen_plain[key] = QuantilesOf(values);
  double squares = 0;
  for (const double b : biases) squares += b * b;
  if (!biases.empty()) {
    e.unseen_shared_sigma = std::sqrt(squares / static_cast<double>(biases.size()));
  }
  return {};
}

}  // namespace hase::latency

#include "latency/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace hase::latency {
namespace {

constexpr int kTestBucket = 0, kCalibrationBucket = 1;
constexpr size_t kLeftOutRows = 20000;   // training rows of one left-out-device run, at most
constexpr int64_t kLeastCellRows = 150;  // a cell of its own needs so many calibration rows
constexpr double kOutliersAside = 3.0;   // log errors beyond are no part of a shared error

std::vector<uint32_t> Select(const Table& table, const std::function<bool(const TableRow&)>& want) {
  std::vector<uint32_t> index;
  for (uint32_t i = 0; i < table.rows.size(); ++i) {
    if (want(table.rows[i])) index.push_back(i);
  }
  return index;
}

// At most `count` of them, drawn with a fixed seed, in their old order.
void Thin(std::vector<uint32_t>& index, size_t count, std::string_view purpose) {
  if (count == 0 || index.size() <= count) return;
  Rng rng = Rng(1).Split(purpose);
  for (size_t i = 0; i < count; ++i) {
    const auto j = static_cast<size_t>(
        rng.UniformInt(static_cast<int64_t>(i), static_cast<int64_t>(index.size()) - 1));
    std::swap(index[i], index[j]);
  }
  index.resize(count);
  std::ranges::sort(index);
}

std::vector<float> Labels(const Table& table, std::span<const uint32_t> index) {
  std::vector<float> out;
  for (const uint32_t i : index) out.push_back(table.rows[i].log_ratio);
  return out;
}

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

std::string Cell(const TableRow& row) {
  return fmt::format("{}|{}", ToString(row.op_class), ToString(row.precision));
}

// The size of an error, from what the features say: trees of depth 4 on log |error|.
Result<Trees> TrainSize(const Table& table, std::span<const uint32_t> index,
                        std::span<const float> predicted, int threads) {
  std::vector<float> labels;
  for (size_t i = 0; i < index.size(); ++i) {
    const double error = table.rows[index[i]].log_ratio - predicted[i];
    labels.push_back(static_cast<float>(std::log(std::abs(error) + 0.003)));
  }
  const BoostOptions options{.trees = 120,
                             .depth = 4,
                             .learning_rate = 0.08,
                             .delta = 1.0,
                             .min_child_weight = 20,
                             .row_sample = 0.7,
                             .column_sample = 0.4,
                             .threads = threads};
  return TrainTrees(table.width, table.Gather(index), labels, {}, options);
}

Status AddSeenIntervals(const Tables& tables, const Table& table, const RowFilter& filter,
                        int threads, Ensemble& e) {
  const auto half = [&](bool odd) {
    return Select(table, [&](const TableRow& r) {
      return r.bucket == kCalibrationBucket && filter(table, r) && ((r.digest & 1) == 1) == odd;
    });
  };
  const auto first = half(false), second = half(true);
  if (first.size() < 20 || second.size() < 20) return {};
  std::vector<float> predicted(first.size());
  e.PredictSeen(table.Gather(first), predicted);
  HASE_ASSIGN_OR_RETURN(e.size, TrainSize(table, first, predicted, threads));
  std::vector<float> size(second.size());
  predicted.resize(second.size());
  const auto rows = table.Gather(second);
  e.PredictSeen(rows, predicted);
  e.SizeOf(rows, size);
  std::map<std::string, std::vector<double>> by_key;
  double squares = 0, count = 0;
  for (size_t i = 0; i < second.size(); ++i) {
    const TableRow& r = table.rows[second[i]];
    const double error = r.log_ratio - predicted[i];
    const std::string keys[] = {tables.devices[r.device].name + "|" + Cell(r), "|" + Cell(r), ""};
    for (const auto& key : keys) by_key[key].push_back(error / size[i]);
    if (std::abs(error) > kOutliersAside) continue;
    squares += error * error;
    ++count;
  }
  for (auto& [key, values] : by_key) {
    if (key.empty() || std::ssize(values) >= kLeastCellRows) e.seen[key] = QuantilesOf(values);
  }
  // Kernels of one model are alike: half of an error's deviation is taken to be shared.
  e.shared_sigma = 0.5 * std::sqrt(squares / std::max(1.0, count));
  return {};
}

// Trains without each NVIDIA device in turn and collects the errors on it.
Status AddUnseenIntervals(const Tables& tables, const Table& table, const TrainOptions& options,
                          const RowFilter& filter, const Progress& progress, Ensemble& e) {
  std::map<std::string, std::vector<double>> by_class;
  std::vector<double> biases;
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
    HASE_ASSIGN_OR_RETURN(
        small.trees, TrainTrees(table.width, table.Gather(train), Labels(table, train), {}, boost));
    std::vector<float> predicted(probe.size());
    small.PredictUnseen(table.Gather(probe), predicted, nullptr,
                        e.DeviceIndex(tables.devices[d].name));
    double sum = 0;
    for (size_t i = 0; i < probe.size(); ++i) {
      const TableRow& r = table.rows[probe[i]];
      const double error = r.log_ratio - predicted[i];
      sum += std::clamp(error, -kOutliersAside, kOutliersAside);
      by_class[std::string(ToString(r.op_class))].push_back(error);
      by_class[""].push_back(error);
    }
    biases.push_back(sum / static_cast<double>(probe.size()));
  }
  for (auto& [key, values] : by_class) e.unseen[key] = QuantilesOf(values);
  double squares = 0;
  for (const double b : biases) squares += b * b;
  if (!biases.empty()) {
    e.unseen_shared_sigma = std::sqrt(squares / static_cast<double>(biases.size()));
  }
  return {};
}

// The identity features of each device with training rows, from its first row.
void AddDevices(const Tables& tables, const Table& table, std::span<const uint32_t> train,
                Ensemble& e) {
  const size_t shape = ShapeFeatureCount(e.family);
  for (const uint32_t i : train) {
    const TableRow& r = table.rows[i];
    ++e.cells[Cell(r)];
    const auto& name = tables.devices[r.device].name;
    if (e.DeviceIndex(name) >= 0) continue;
    e.devices.push_back(name);
    const auto row = table.Row(i);
    e.identities.emplace_back(row.begin() + static_cast<int64_t>(shape), row.end());
  }
}

}  // namespace

BoostOptions OptionsFor(Family family, Convention convention, size_t rows) {
  BoostOptions o;
  if (rows < 5000) {
    o.trees = 200, o.depth = 6, o.learning_rate = 0.06, o.delta = 0.1, o.column_sample = 0.4;
    return o;
  }
  switch (family) {
    case Family::kConv:
      if (convention == Convention::kTensorRtEngine) {
        o.trees = 420, o.depth = 12, o.learning_rate = 0.09, o.delta = 0.04;
      } else if (convention == Convention::kPyTorchEvents) {
        o.trees = 350, o.depth = 8, o.learning_rate = 0.05, o.delta = 0.1, o.column_sample = 0.3;
      } else if (convention == Convention::kMiopenSolver) {
        o.trees = 250, o.depth = 10, o.learning_rate = 0.12, o.delta = 0.08;
      } else {
        o.trees = 250, o.depth = 9, o.learning_rate = 0.1, o.delta = 0.06;
      }
      break;
    case Family::kGemm:
      o.trees = 400, o.depth = 10, o.learning_rate = 0.08, o.delta = 0.04;
      if (convention == Convention::kTensorFlowSession) o.trees = 200, o.depth = 8;
      if (convention == Convention::kKernelProfile) o.trees = 200, o.depth = 8;
      break;
    case Family::kMemory:
      o.trees = 300, o.depth = 9, o.learning_rate = 0.1, o.delta = 0.02;
      break;
  }
  return o;
}

Result<Ensemble> TrainEnsemble(const Tables& tables, const Table& table,
                               const TrainOptions& options, const RowFilter& filter,
                               const Progress& progress) {
  Ensemble e;
  e.family = table.family;
  e.convention = table.convention;
  auto train = Select(table, [&](const TableRow& r) {
    return r.bucket != kTestBucket && r.bucket != kCalibrationBucket && filter(table, r);
  });
  Thin(train, static_cast<size_t>(options.sample), "training sample");
  if (train.empty()) {
    return Invalid(fmt::format("{}: no rows to train on", table.data_set));
  }
  AddDevices(tables, table, train, e);
  auto boost = OptionsFor(e.family, e.convention, train.size());
  boost.threads = options.threads;
  const auto name =
      fmt::format("{} / {} ({} rows)", ToString(e.family), ToString(e.convention), train.size());
  progress(name);
  HASE_ASSIGN_OR_RETURN(
      e.trees,
      TrainTrees(table.width, table.Gather(train), Labels(table, train), {}, boost, [&](int trees) {
        progress(fmt::format("{}: {} of {} trees", name, trees, boost.trees));
      }));
  HASE_RETURN_IF_ERROR(AddSeenIntervals(tables, table, filter, options.threads, e));
  // The sets with the same shapes on many cards say what an unseen one does; others borrow it.
  const bool shared_shapes =
      e.convention == Convention::kPyTorchEvents || e.convention == Convention::kServingGemm;
  if (options.unseen_intervals && shared_shapes && e.devices.size() > 2) {
    HASE_RETURN_IF_ERROR(AddUnseenIntervals(tables, table, options, filter, progress, e));
  }
  return e;
}

Result<ModelFile> TrainModel(const Tables& tables, const TrainOptions& options,
                             const Progress& progress) {
  ModelFile file;
  std::string sets;
  for (const auto& table : tables.tables) {
    HASE_ASSIGN_OR_RETURN(
        auto ensemble,
        TrainEnsemble(
            tables, table, options, [](const Table&, const TableRow&) { return true; }, progress));
    file.ensembles.push_back(std::move(ensemble));
    sets += fmt::format("{}{} {} {}", sets.empty() ? "" : ", ", table.data_set,
                        ToString(table.family), table.rows.size());
  }
  // Ensembles of one device know nothing of unseen ones: they take the widest of their family.
  for (auto& e : file.ensembles) {
    if (!e.unseen.empty()) continue;
    for (const auto& other : file.ensembles) {
      if (other.family == e.family && !other.unseen.empty() &&
          other.unseen_shared_sigma >= e.unseen_shared_sigma) {
        e.unseen = other.unseen;
        e.unseen_shared_sigma = other.unseen_shared_sigma;
      }
    }
  }
  file.trained_on = fmt::format("rows read: {}", sets);
  return file;
}

std::vector<uint32_t> UsedDigests(const Tables& tables) {
  std::vector<uint32_t> out;
  for (const auto& table : tables.tables) {
    for (const auto& row : table.rows) {
      if (row.bucket != kTestBucket) out.push_back(row.digest);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string PackDigests(std::span<const uint32_t> sorted) {
  std::string out;
  uint32_t last = 0;
  for (const uint32_t digest : sorted) {
    for (uint32_t gap = digest - last;; gap >>= 7) {
      out += static_cast<char>((gap & 0x7F) | (gap > 0x7F ? 0x80 : 0));
      if (gap <= 0x7F) break;
    }
    last = digest;
  }
  return out;
}

Result<std::vector<uint32_t>> UnpackDigests(std::string_view bytes) {
  std::vector<uint32_t> out;
  uint32_t last = 0, gap = 0;
  int shift = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (shift > 28) return Invalid("digests of trained rows: damaged; run `hase train`");
    gap |= static_cast<uint32_t>(byte & 0x7F) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    last += gap;
    out.push_back(last);
    gap = 0;
    shift = 0;
  }
  if (shift != 0) return Invalid("digests of trained rows: cut short; run `hase train`");
  return out;
}

}  // namespace hase::latency

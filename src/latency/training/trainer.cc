#include "latency/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "latency/training/intervals.h"

namespace hase::latency {
namespace {

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
    e.specs.push_back(tables.devices[r.device]);
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
        o.trees = 350, o.depth = 8, o.learning_rate = 0.05, o.delta = 0.1;
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
  if (e.devices.size() > Ensemble::kMostDevices) {
    return Invalid(fmt::format("{}: {} cards in one set, at most {} can be told apart",
                               table.data_set, e.devices.size(), Ensemble::kMostDevices));
  }
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
  HASE_RETURN_IF_ERROR(AddSeenIntervals(tables, table, options, filter, progress, e));
  if (options.unseen_intervals && SharesShapes(e.convention) && e.devices.size() > 2) {
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
      if (other.family == e.family && !other.unseen_plain.empty() &&
          other.unseen_shared_sigma >= e.unseen_shared_sigma) {
        // Their opinions do not spread, so sizes of errors mean nothing here.
        e.unseen = other.unseen_plain;
        e.unseen_floor = -1;  // errors themselves, not errors by size
        e.unseen_shared_sigma = other.unseen_shared_sigma;
      }
    }
  }
  file.trained_on = fmt::format("rows read: {}", sets);
  return file;
}

bool KeptForTraining(const TableRow& row, Convention convention, const cluster::DeviceSpec& spec) {
  return row.bucket == kCalibrationBucket && spec.vendor == "NVIDIA" && SharesShapes(convention);
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

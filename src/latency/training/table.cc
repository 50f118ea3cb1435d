#include "latency/training/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.h"
#include "latency/data/shapes.h"

namespace hase::latency {
namespace {

class Loader {
 public:
  Loader(const cluster::Catalogue& catalogue, const KeepKernel& keep, Tables& out)
      : catalogue_(catalogue), keep_(keep), out_(out) {}

  void Add(Row&& row) {
    const auto& kernel = row.sample.kernel;
    const int device = DeviceIndex(row.sample.device);
    if (device < 0) {
      ++unknown_[fmt::format("{}: device '{}' is not in the catalogue", row.sample.source,
                             row.sample.device)];
      return;
    }
    const KernelTarget target{.spec = &out_.devices[static_cast<size_t>(device)],
                              .runtime = row.sample.runtime,
                              .session_place = row.session_place};
    const Features features = ComputeFeatures(kernel, target, row.convention);
    Table& table = TableFor(FamilyOf(kernel), row.convention, row.sample.source);
    TableRow r;
    r.roofline_us = static_cast<float>(features.roofline.total_us());
    r.compute_us = static_cast<float>(features.roofline.compute_us);
    r.latency_us = static_cast<float>(row.sample.latency_us);
    r.log_ratio =
        static_cast<float>(std::log(row.sample.latency_us / features.roofline.total_us()));
    r.device = static_cast<uint16_t>(device);
    r.bucket = static_cast<uint8_t>(GeometryBucket(kernel));
    if (table.family == Family::kConv) {
      const auto text = fmt::format("{}|{}", kernel.inputs[0][1], kernel.output[1]);
      r.block = static_cast<uint8_t>(Fnv1a64(text) % 10);
    }
    r.op_class = kernel.op_class;
    r.precision = kernel.precision;
    r.digest = RowDigest(row);
    r.session_place = static_cast<float>(row.session_place);
    r.kernel = static_cast<uint32_t>(Fnv1a64(GeometryKey(kernel)));
    if (keep_ && keep_(r, row.convention, *target.spec)) {
      table.kept.push_back({static_cast<uint32_t>(table.rows.size()), kernel});
    }
    table.rows.push_back(r);
    table.x.insert(table.x.end(), features.values.begin(), features.values.end());
  }

  void CountUnknown() {
    for (const auto& [reason, rows] : unknown_) {
      out_.report.dropped[reason] += rows;
      out_.report.rows -= rows;
    }
  }

 private:
  int DeviceIndex(const std::string& name) {
    const auto [it, inserted] = index_.try_emplace(name, -1);
    if (!inserted) return it->second;
    auto spec = catalogue_.Find(name);
    if (!spec) return -1;
    for (size_t i = 0; i < out_.devices.size(); ++i) {
      if (out_.devices[i].name == spec->name) return it->second = static_cast<int>(i);
    }
    out_.devices.push_back(std::move(*spec));
    return it->second = static_cast<int>(out_.devices.size()) - 1;
  }

  Table& TableFor(Family family, Convention convention, const std::string& data_set) {
    for (auto& table : out_.tables) {
      if (table.family == family && table.convention == convention) return table;
    }
    Table& table = out_.tables.emplace_back();
    table.family = family;
    table.convention = convention;
    table.data_set = data_set;
    table.width = FeatureNames(family).size();
    return table;
  }

  const cluster::Catalogue& catalogue_;
  const KeepKernel& keep_;
  Tables& out_;
  std::map<std::string, int> index_;
  std::map<std::string, int64_t> unknown_;
};

}  // namespace

std::vector<float> Table::Gather(std::span<const uint32_t> index) const {
  std::vector<float> out;
  out.reserve(index.size() * width);
  for (const uint32_t i : index) out.insert(out.end(), Row(i).begin(), Row(i).end());
  return out;
}

const model::Kernel* Table::Kernel(uint32_t row) const {
  const auto it = std::ranges::lower_bound(kept, row, {}, &KeptKernel::row);
  return it == kept.end() || it->row != row ? nullptr : &it->kernel;
}

Result<Tables> LoadTables(std::span<const std::filesystem::path> paths,
                          std::span<const std::string> only, const KeepKernel& keep,
                          bool sessions) {
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  Tables out;
  Loader loader(catalogue, keep, out);
  HASE_ASSIGN_OR_RETURN(out.report, ReadKernelRows(paths, only, [&](Row&& row) {
                          if (!sessions) row.session_place = 0;
                          loader.Add(std::move(row));
                        }));
  loader.CountUnknown();
  return out;
}

}  // namespace hase::latency

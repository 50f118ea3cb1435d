#include "cluster/slowdown_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/csv.h"

namespace hase::cluster {
namespace {

struct Side {
  std::vector<ModelId> models;  // every interned model of the name
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
  double factor = 1;
  bool empty = false;
};

Result<Side> ReadSide(const CsvTable& t, size_t row, char which, const model::ModelTable& models) {
  const auto column = [which](const char* stem) { return fmt::format("{}_{}", stem, which); };
  Side side;
  const auto name = t.Text(row, column("model"));
  side.empty = name.empty();
  if (side.empty && which == 'a') {
    return Invalid(fmt::format("{}: empty", t.Where(row, column("model"))));
  }
  if (side.empty) return side;
  for (uint32_t i = 0; i < models.size(); ++i) {
    if (models[ModelId(i)].name == name) side.models.push_back(ModelId(i));
  }
  HASE_ASSIGN_OR_RETURN(side.batch, t.RequiredInteger(row, column("batch")));
  HASE_ASSIGN_OR_RETURN(const double share, t.RequiredNumber(row, column("share")));
  HASE_ASSIGN_OR_RETURN(side.factor, t.RequiredNumber(row, column("factor")));
  if (side.batch < 1) {
    return Invalid(
        fmt::format("{}: batch {} must be at least 1", t.Where(row, column("batch")), side.batch));
  }
  if (share <= 0 || share > 1) {
    return Invalid(fmt::format("{}: share {} must be above 0 and at most 1",
                               t.Where(row, column("share")), share));
  }
  if (side.factor < 1) {
    return Invalid(fmt::format("{}: factor {} must be at least 1: it multiplies the solo time",
                               t.Where(row, column("factor")), side.factor));
  }
  side.share = ShareFromFraction(share);
  return side;
}

}  // namespace

double ProportionalSlowdown(MilliShare share) {
  return std::max(1.0, 1.0 / std::max(1e-3, ToFraction(share)));
}

Result<SlowdownTable> SlowdownTable::Parse(const std::string& name, std::string_view text,
                                           const model::ModelTable& models) {
  HASE_ASSIGN_OR_RETURN(const CsvTable t,
                        CsvTable::Parse(name, text,
                                        {"model_a", "batch_a", "share_a", "model_b", "batch_b",
                                         "share_b", "factor_a", "factor_b"},
                                        {"model_a", "batch_a", "share_a", "factor_a"}));
  SlowdownTable table;
  for (size_t row = 0; row < t.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const Side a, ReadSide(t, row, 'a', models));
    HASE_ASSIGN_OR_RETURN(const Side b, ReadSide(t, row, 'b', models));
    for (const ModelId ma : a.models) {
      const SlowdownKey key_a{ma, a.batch, a.share};
      if (b.empty) table.alone_[key_a] = a.factor;
      for (const ModelId mb : b.models) {
        const SlowdownKey key_b{mb, b.batch, b.share};
        table.pairs_[{key_a, key_b}] = a.factor;
        table.pairs_[{key_b, key_a}] = b.factor;
      }
    }
  }
  return table;
}

double SlowdownTable::Alone(const SlowdownKey& self) const {
  const auto at = alone_.find(self);
  return at == alone_.end() ? ProportionalSlowdown(self.share) : at->second;
}

double SlowdownTable::Factor(const SlowdownKey& self, std::span<const SlowdownKey> others) const {
  const double alone = Alone(self);
  double factor = alone;
  for (const auto& other : others) {
    const auto at = pairs_.find({self, other});
    if (at != pairs_.end()) factor *= at->second / alone;
  }
  return std::max(1.0, factor);
}

}  // namespace hase::cluster

#include "cluster/model_rows.h"

#include <fmt/core.h>

#include "cluster/cluster_file.h"

namespace hase::cluster {

Result<RowTargets> MatchRow(const CsvTable& t, size_t row, const model::ModelTable& models,
                            std::span<const DeviceType> types) {
  RowTargets targets;
  HASE_ASSIGN_OR_RETURN(targets.batch, t.RequiredInteger(row, "batch"));
  if (targets.batch < 1) {
    return Invalid(
        fmt::format("{}: batch {} must be at least 1", t.Where(row, "batch"), targets.batch));
  }
  std::optional<model::Runtime> runtime;
  model::Precision precision = model::Precision::kFp32;
  if (const auto text = t.Text(row, "runtime"); !text.empty()) {
    const auto parsed = model::ParseRuntime(text);
    if (!parsed) {
      return Invalid(fmt::format("{}: {}", t.Where(row, "runtime"), parsed.error().message));
    }
    runtime = *parsed;
  }
  if (const auto text = t.Text(row, "precision"); !text.empty()) {
    const auto parsed = model::ParsePrecision(text);
    if (!parsed) {
      return Invalid(fmt::format("{}: {}", t.Where(row, "precision"), parsed.error().message));
    }
    precision = *parsed;
  }
  for (const char* column : {"model", "device_type"}) {
    if (t.Text(row, column).empty()) {
      return Invalid(fmt::format("{}: empty", t.Where(row, column)));
    }
  }
  for (uint32_t m = 0; m < models.size(); ++m) {
    const auto& ref = models[ModelId(m)];
    if (ref.name != t.Text(row, "model") || ref.precision != precision) continue;
    for (uint32_t d = 0; d < types.size(); ++d) {
      const auto runs_on = ref.runtime.value_or(types[d].runtime);
      if (runtime && *runtime != runs_on) continue;
      if (NamesType(t.Text(row, "device_type"), types[d])) {
        targets.pairs.emplace_back(ModelId(m), DeviceTypeId(d));
      }
    }
  }
  return targets;
}

}  // namespace hase::cluster

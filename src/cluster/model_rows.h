// Rows that speak of (model, device_type, batch, runtime, precision): which of a run's models and
// device types one of them is about. Shared by estimates.csv and times.csv.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "cluster/device.h"
#include "model/model_table.h"

namespace hase::cluster {

struct RowTargets {
  std::vector<std::pair<ModelId, DeviceTypeId>> pairs;
  int64_t batch = 1;
};
// An empty runtime speaks for every runtime, an empty precision means fp32. A model that wishes for
// no runtime runs on the device's own.
Result<RowTargets> MatchRow(const CsvTable& table, size_t row, const model::ModelTable& models,
                            std::span<const DeviceType> types);

}  // namespace hase::cluster

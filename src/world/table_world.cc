#include "world/table_world.h"

#include <fmt/core.h>

#include "base/csv.h"
#include "cluster/model_rows.h"

namespace hase::world {
namespace {

Result<Solo> ReadSolo(const CsvTable& t, size_t row) {
  HASE_ASSIGN_OR_RETURN(const double latency, t.RequiredNumber(row, "latency_ms"));
  HASE_ASSIGN_OR_RETURN(const auto memory, t.Integer(row, "memory_bytes"));
  HASE_ASSIGN_OR_RETURN(const auto load, t.Number(row, "load_ms"));
  if (latency <= 0) {
    return Invalid(
        fmt::format("{}: latency {} must be above 0", t.Where(row, "latency_ms"), latency));
  }
  if (memory.value_or(0) < 0) {
    return Invalid(fmt::format("{}: must not be negative", t.Where(row, "memory_bytes")));
  }
  if (load.value_or(0) < 0) {
    return Invalid(fmt::format("{}: must not be negative", t.Where(row, "load_ms")));
  }
  return Solo{latency * 1e-3, load.value_or(0) * 1e-3, Bytes(memory.value_or(0))};
}

}  // namespace

TableWorld::TableWorld(const cluster::Cluster& cluster)
    : cluster_(&cluster), card_factor_(cluster.devices.size(), 1.0) {}

Result<TableWorld> TableWorld::Parse(const std::string& name, std::string_view text,
                                     const model::ModelTable& models,
                                     const cluster::Cluster& cluster) {
  HASE_ASSIGN_OR_RETURN(const CsvTable t,
                        CsvTable::Parse(name, text,
                                        {"model", "device_type", "batch", "runtime", "precision",
                                         "latency_ms", "memory_bytes", "source", "load_ms"},
                                        {"model", "device_type", "batch", "latency_ms"}));
  TableWorld world(cluster);
  for (size_t row = 0; row < t.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const auto targets, cluster::MatchRow(t, row, models, cluster.types));
    HASE_ASSIGN_OR_RETURN(const Solo solo, ReadSolo(t, row));
    for (const auto& [model, type] : targets.pairs) world.Set(model, type, targets.batch, solo);
  }
  return world;
}

void TableWorld::Set(ModelId model, DeviceTypeId type, int64_t batch, Solo solo) {
  solos_[{model, type, batch}] = solo;
}

std::optional<Solo> TableWorld::Alone(ModelId model, DeviceId device, int64_t batch) const {
  const auto at = solos_.find({model, cluster_->devices[device.index()].type, batch});
  if (at == solos_.end()) return std::nullopt;
  Solo solo = at->second;
  solo.batch_s *= card_factor_[device.index()];
  return solo;
}

void TableWorld::Slowdowns(DeviceId, std::span<const Occupant> occupants,
                           std::span<double> factors) const {
  std::vector<cluster::SlowdownKey> others;
  for (size_t i = 0; i < occupants.size(); ++i) {
    others.clear();
    for (size_t j = 0; j < occupants.size(); ++j) {
      if (j == i) continue;
      others.push_back({occupants[j].model, occupants[j].batch, occupants[j].share});
    }
    factors[i] =
        slowdowns_.Factor({occupants[i].model, occupants[i].batch, occupants[i].share}, others);
  }
}

}  // namespace hase::world

// TableWorld (W1, and the truth of scenario tests): times.csv and slowdown.csv as they are. What is
// in no row cannot run. Optional per-card speeds and noise make a table of exact times less tame.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "cluster/slowdown_table.h"
#include "model/model_table.h"
#include "world/world.h"

namespace hase::world {

class TableWorld : public World {
 public:
  // times.csv: model,device_type,batch,runtime,precision,latency_ms,memory_bytes,source[,load_ms].
  // The cluster outlives the world.
  static Result<TableWorld> Parse(const std::string& name, std::string_view text,
                                  const model::ModelTable& models, const cluster::Cluster& cluster);
  explicit TableWorld(const cluster::Cluster& cluster);

  void Set(ModelId model, DeviceTypeId type, int64_t batch, Solo solo);
  void SetSlowdowns(cluster::SlowdownTable table) { slowdowns_ = std::move(table); }
  // Multiplies the card's times.
  void SetCardFactor(DeviceId device, double factor) { card_factor_[device.index()] = factor; }

  std::optional<Solo> Alone(ModelId model, DeviceId device, int64_t batch) const override;
  void Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                 std::span<double> factors) const override;
  double LoadFactor(DeviceId, double factor) const override { return factor; }
  double RunNoise(JobId, uint64_t) const override { return 1; }

 private:
  const cluster::Cluster* cluster_;  // never null
  std::map<std::tuple<ModelId, DeviceTypeId, int64_t>, Solo> solos_;
  std::vector<double> card_factor_;
  cluster::SlowdownTable slowdowns_;
};

}  // namespace hase::world

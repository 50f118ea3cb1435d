// ResidualWorld (W2): a table of predicted times, each multiplied by a residual that the predictor
// really made on held-out data. Residuals are re-sampled in blocks: for each (model, device type)
// one block (data set, device, model) of residuals.csv is drawn, its mean log error is the bias of
// all that model's runs there, and each run adds noise of the block's own scatter over the number
// of rows. Memory gets a residual of its own, drawn the same way from rows of op_class `memory`,
// where the file has them. The excess of a slow-down over 1 is multiplied by a residual too.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "world/world.h"

namespace hase::world {

struct ResidualBlock {
  double bias = 0;   // mean log error: log(observed / predicted)
  double sigma = 0;  // standard error of that mean
  bool memory = false;
};
// residuals.csv: dataset,device,model,op_class,log_error. Blocks in the file's order.
Result<std::vector<ResidualBlock>> ParseResiduals(const std::string& name, std::string_view text);

class ResidualWorld : public World {
 public:
  using SoloTable = std::function<std::optional<Solo>(ModelId, DeviceTypeId, int64_t batch)>;
  using SlowdownLaw =
      std::function<double(DeviceTypeId, const Occupant& self, std::span<const Occupant> others)>;

  // `cluster` outlives the world. `blocks` must hold at least one that is not memory's.
  ResidualWorld(const cluster::Cluster& cluster, SoloTable predicted, SlowdownLaw law,
                std::vector<ResidualBlock> blocks, uint64_t seed);

  std::optional<Solo> Alone(ModelId model, DeviceId device, int64_t batch) const override;
  void Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                 std::span<double> factors) const override;
  double LoadFactor(DeviceId, double factor) const override { return factor; }
  double RunNoise(JobId job, uint64_t run) const override;

 private:
  struct Draw {
    double time = 1, memory = 1, load = 1;
  };
  const Draw& DrawOf(ModelId model, DeviceTypeId type) const;

  const cluster::Cluster& cluster_;
  SoloTable predicted_;
  SlowdownLaw law_;
  std::vector<ResidualBlock> times_, memories_;
  uint64_t seed_;
  mutable std::map<std::pair<ModelId, DeviceTypeId>, Draw> draws_;
};

}  // namespace hase::world

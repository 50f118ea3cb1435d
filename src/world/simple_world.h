// SimpleWorld: times given one by one, and proportional sharing. The world of small tests, where
// every figure can be worked out by hand: k occupants whose shares sum to at most the whole device
// each run at the speed of their share, times `gain` where they are more than one.
#pragma once

#include <map>
#include <tuple>

#include "world/world.h"

namespace hase::world {

class SimpleWorld : public World {
 public:
  // References outlive the world. gain 1: sharing wins nothing; 1.25: two halves do 25 % more.
  explicit SimpleWorld(const cluster::Cluster& cluster, double gain = 1)
      : cluster_(cluster), gain_(gain) {}

  void Set(ModelId model, DeviceTypeId type, int64_t batch, Solo solo);

  std::optional<Solo> Alone(ModelId model, DeviceId device, int64_t batch) const override;
  void Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                 std::span<double> factors) const override;
  double LoadFactor(DeviceId, double factor) const override { return factor; }
  double LeastUse(ModelId, DeviceId, int64_t, int) const override { return 1 / gain_; }
  double RunNoise(JobId, uint64_t) const override { return 1; }

 private:
  const cluster::Cluster& cluster_;
  double gain_;
  std::map<std::tuple<ModelId, DeviceTypeId, int64_t>, Solo> solos_;
};

}  // namespace hase::world

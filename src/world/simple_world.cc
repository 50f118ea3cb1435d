#include "world/simple_world.h"

#include <algorithm>

namespace hase::world {

void SimpleWorld::Set(ModelId model, DeviceTypeId type, int64_t batch, Solo solo) {
  solos_[{model, type, batch}] = solo;
}

std::optional<Solo> SimpleWorld::Alone(ModelId model, DeviceId device, int64_t batch) const {
  const auto at = solos_.find({model, cluster_.devices[device.index()].type, batch});
  if (at == solos_.end()) return std::nullopt;
  return at->second;
}

void SimpleWorld::Slowdowns(DeviceId, std::span<const Occupant> occupants,
                            std::span<double> factors) const {
  const double gain = occupants.size() > 1 ? gain_ : 1.0;
  for (size_t i = 0; i < occupants.size(); ++i) {
    factors[i] = std::max(1.0, 1.0 / (ToFraction(occupants[i].share) * gain));
  }
}

}  // namespace hase::world

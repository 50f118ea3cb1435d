// World: what really happens to work on devices, for simulations. It is judged by nobody and knows
// nothing of the predictor: this room never includes latency or placement (tools/check_layers.py).
//
// W1 table: measured times (table_world.h). W2 residual: a prediction table handed in, times
// re-sampled held-out errors (residual_world.h). W3 other law: its own roofline and max-min sharing
// (law_world.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/units.h"
#include "cluster/device.h"

namespace hase::world {

// Who is on a device, as the world sees it.
struct Occupant {
  ModelId model;
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
};

// One model alone on one card.
struct Solo {
  double batch_s = 0;  // one batch, this very card
  double load_s = 0;   // process, context, model load, warm-up
  Bytes memory;        // peak
};

class World {
 public:
  virtual ~World() = default;

  // nullopt: it cannot run there. Constant for a (model, device, batch) within a run of the
  // simulator; references to noise of single runs are RunNoise's.
  virtual std::optional<Solo> Alone(ModelId model, DeviceId device, int64_t batch) const = 0;

  // factors[i] >= 1: how much slower occupant i is than alone on the whole device, its own share
  // and all others counted. Both spans have the same length.
  virtual void Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                         std::span<double> factors) const = 0;

  // What the slow-down `factor` does to loading a model there: 1 = nothing.
  virtual double LoadFactor(DeviceId device, double factor) const = 0;

  // For lower bounds: the least part of resource `mix` of the card that one solo second of this
  // model's work takes, however it is shared; any mix < mixes() gives a valid bound. 1 = all of it.
  virtual int mixes() const { return 1; }
  virtual double LeastUse(ModelId, DeviceId, int64_t /*batch*/, int /*mix*/) const { return 1; }

  // Factor on the times of the job's start number `run` (from 0, parts of cut jobs counted too);
  // mean about 1. The same for every policy, so that policies differ in what they decide, not in
  // luck, and bounds can count it.
  virtual double RunNoise(JobId job, uint64_t run) const = 0;
};

}  // namespace hase::world

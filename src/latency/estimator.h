// Estimator: the predictor as placement sees it. Two questions only: how long does this model take
// on this type of device, and how much slower is it beside those residents. Implementations: the
// trained predictor (predictor.h), a table (table_estimator.h, `--estimates`).
//
// Calls are pure and cheap after the first for a (model, type, batch): implementations memoise.
// Returned references stay valid until the estimator is told of new measurements.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "latency/estimate.h"

namespace hase::latency {

// One tenant of a device: what it runs and how much of the device it may use.
struct Tenant {
  ModelId model;
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
};

// What strangers use of the device, as counters say, HASE's own residents taken out. Fractions; on
// a CPU `sm` counts competitors of the job's own weight per core, and the stretches say by how much
// work of each kind takes longer than at rest, waiting for the core left out (cpu_load.h).
struct ForeignLoad {
  double sm = 0, dram = 0, pcie = 0;
  double age_s = 0;
  bool valid = false;
  double compute_stretch = 0, stream_stretch = 0;
};

class Estimator {
 public:
  virtual ~Estimator() = default;

  // nullptr: no estimate is possible for this triple (reason in WhyNot).
  virtual const Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const = 0;
  virtual std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const = 0;

  // Factor >= 1 on the tenant's solo, whole-device time: its own share, the other tenants and
  // strangers together.
  virtual double Slowdown(const Tenant& tenant, DeviceTypeId type, std::span<const Tenant> others,
                          const ForeignLoad& foreign) const = 0;
};

}  // namespace hase::latency

// ServingTruth: how long batches really take in the request-level world. LawTruth answers with a
// law of its own (world W3, serving part): max-min sharing of DRAM bandwidth under hard SM caps, L2
// pressure, power-limited clocks, host threads that disturb each other, cards and models that
// differ from what anybody predicted, and noise. It shares no arithmetic with the predictor's
// share law, and its parameters (data/w3_serving.yaml) were fixed before any plan was judged.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/units.h"
#include "cluster/device.h"

namespace hase::world {

// One server: a process that runs batches of one model on a share of one device.
struct Server {
  ModelId model;
  DeviceId device;
  MilliShare share = kWholeDevice;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  int64_t batch = 1;  // the largest it forms
  int slot = 0;       // servers of one slot of a device divide its share among them
};

class ServingTruth {
 public:
  virtual ~ServingTruth() = default;
  // Seconds of a batch of `items` with no other server busy on the device; without noise.
  virtual double BatchSeconds(const Server& server, int64_t items) const = 0;
  // ratios[i] >= 1: what the others in `busy` do to busy[i], on top of BatchSeconds.
  virtual void Ratios(std::span<const Server* const> busy, std::span<double> ratios) const = 0;
  // Factor on one batch; mean about 1.
  virtual double Noise(Rng& rng) const = 0;
  virtual double LoadSeconds(const Server& server) const = 0;
  virtual Bytes Memory(const Server& server) const = 0;
  // DRAM active, as a counter would see it: the fraction of the device's bandwidth used on average
  // while such batches run alone.
  virtual double DramActive(const Server&, int64_t) const { return 0; }
  // What processes on the device may use together.
  virtual Bytes DeviceMemory(DeviceId) const { return Bytes::Max(); }
};

// What one batch needs of a whole device: the world is told totals, not how they share.
struct BatchWork {
  double latency_s = 0;                                   // alone, whole device
  double compute_part = 0, dram_part = 0, host_part = 0;  // of the latency, by what binds; sum 1
  double parallelism = 1;  // fraction of SMs that compute-bound kernels fill
  double load_s = 0;
  Bytes memory;
};
using WorkTable = std::function<BatchWork(ModelId, DeviceTypeId, int64_t batch)>;

struct ServingLawParameters {
  double model_sigma = 0.05;  // log: a (model, device type) against the table
  double part_sigma = 0.10;   // log: compute, DRAM, host parts against the table, each
  double card_sigma = 0.02;   // log: one card against its type
  double noise_sigma = 0.02;  // log: one batch against the next
  double hiccup_probability = 0.001, hiccup_factor = 1.5;
  double bandwidth_sms = 0.30;     // fraction of SMs that draws the whole DRAM bandwidth
  double compute_exponent = 0.97;  // time ∝ (SMs)^-exponent below the parallelism
  double overlap_low = 0.4, overlap_high = 0.9;  // of host and device work, by model
  double device_overlap = 0.5;                   // of compute and DRAM work inside the device
  double l2_gain = 0.2;     // stalls per unit of DRAM bandwidth that busy neighbours ask for
  double host_gain = 0.02;  // slower host per busy neighbour
  double power_knee = 0.85, power_slope = 0.25;  // clock lost per SM fraction busy above the knee
  double switch_cost = 0.03;                     // time-slicing: per switch of contexts
};
Result<ServingLawParameters> ReadServingLaw(const std::string& path);

class LawTruth : public ServingTruth {
 public:
  // `cluster` outlives the object.
  LawTruth(const cluster::Cluster& cluster, WorkTable table, ServingLawParameters parameters,
           uint64_t seed);

  double BatchSeconds(const Server& server, int64_t items) const override;
  void Ratios(std::span<const Server* const> busy, std::span<double> ratios) const override;
  double Noise(Rng& rng) const override;
  double LoadSeconds(const Server& server) const override;
  Bytes Memory(const Server& server) const override;
  Bytes DeviceMemory(DeviceId device) const override;
  double DramActive(const Server& server, int64_t items) const override;

 private:
  // Absolute seconds of demand after this world's draws.
  struct Demand {
    double compute_s, dram_s, host_s, parallelism, overlap, scale;
  };
  Demand DemandOf(ModelId model, DeviceId device, int64_t items) const;
  void Seconds(std::span<const Server* const> busy, std::span<const int64_t> items,
               std::span<double> out) const;

  const cluster::Cluster& cluster_;
  WorkTable table_;
  ServingLawParameters p_;
  Rng rng_;
  mutable std::unordered_map<uint64_t, Demand> demands_;
};

}  // namespace hase::world

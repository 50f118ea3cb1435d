// LawWorld (W3): a law of its own for how long kernels take and how tenants share a card. It shares
// no arithmetic and no header with the predictor; its parameters (data/w3.yaml) carry their sources
// and were fixed before any policy was run in it.
//
// Alone: a kernel's compute time c (peak × efficiency of its class × the SMs its blocks fill) and
// DRAM time d (bytes that miss L2 over achieved bandwidth) overlap as (c^q + d^q)^(1/q); launches
// are at least a gap apart; each card differs from its type.
//
// Shared: tenant i progresses at rate r_i <= 1 of its solo pace and uses r_i · u_i of each resource
// (SMs, DRAM, L2), u_i being its use when alone. Rates rise together until a resource is full or a
// tenant reaches the cap of its share; those who use the full resource stop there (progressive
// filling: max-min fairness). Neighbours' L2 use adds DRAM traffic; the sum of activity lowers the
// clock. Time-slicing gives each tenant its turn and loses the switches. A CPU quota divides.
//
// Left out: bank conflicts and other effects inside one kernel, PCIe contention, thermal history.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "model/kernel.h"
#include "world/world.h"

namespace hase::world {

struct LawParameters {
  std::array<double, model::kOpClassCount> efficiency = {};  // by OpClass
  double bandwidth_efficiency = 0, l2_ratio = 0, l2_hit = 0, overlap = 0, tile = 0;
  double gap_gpu_us = 0, gap_cpu_us = 0;
  std::vector<std::pair<std::string, double>> sustained;  // catalogue name's leading part
  double sustained_default = 0;
  double reduced_precision_efficiency = 0;
  double card_sigma = 0, card_bound = 0, run_sigma = 0;
  double power_knee = 0, power_slope = 0, power_sm = 0, power_dram = 0;
  double l2_eviction = 0, share_exponent = 0, switch_cost = 0;
  double load_base_s = 0, load_cpu_base_s = 0, disk_gb_s = 0, load_kernel_ms = 0;
  double context_mib = 0, cpu_context_mib = 0, activation_factor = 0, workspace_part = 0,
         load_weight_copies = 0;
};
Result<LawParameters> ParseLawParameters(const std::string& name, const std::string& text);

// Kernels of a model at a batch for a runtime; null: it cannot run there.
using KernelTable =
    std::function<const model::ModelKernels*(ModelId, model::Runtime, int64_t batch)>;

// Use of each resource when alone, as a part of the whole card.
struct Demand {
  double sm = 0, dram = 0, l2 = 0;
  double compute_part = 0;  // of the time, bound by SMs
};
// Rates in (0, 1] of tenants that run at the same time. caps: by share. The three spans have one
// length.
void ShareMaxMin(std::span<const Demand> demands, std::span<const double> caps,
                 const LawParameters& p, std::span<double> rates);

// How a card's own factor is drawn: one stream in the cluster's order, or by the device's name, so
// that a card stays the same whatever else the cluster holds.
enum class CardDraws : uint8_t { kInOrder, kByName };

class LawWorld : public World {
 public:
  // `cluster` outlives the world. The seed draws cards and noise.
  LawWorld(const cluster::Cluster& cluster, KernelTable kernels, LawParameters parameters,
           uint64_t seed, CardDraws draws = CardDraws::kInOrder);

  std::optional<Solo> Alone(ModelId model, DeviceId device, int64_t batch) const override;
  void Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                 std::span<double> factors) const override;
  double LoadFactor(DeviceId device, double factor) const override;
  // SMs, DRAM, L2, and SMs and DRAM in equal parts: progress of r uses r · u of each.
  int mixes() const override { return 4; }
  double LeastUse(ModelId model, DeviceId device, int64_t batch, int mix) const override;
  double RunNoise(JobId job, uint64_t run) const override;
  double CardFactor(DeviceId device) const { return card_[device.index()]; }

 private:
  struct Work {
    bool runs = false;
    Solo solo;  // of the type
    Demand demand;
  };
  const Work& WorkOf(ModelId model, DeviceTypeId type, int64_t batch) const;
  Work Compute(const model::ModelKernels& kernels, const cluster::DeviceType& type) const;

  const cluster::Cluster& cluster_;
  KernelTable kernels_;
  LawParameters p_;
  uint64_t seed_;
  std::vector<double> card_;
  mutable std::map<std::tuple<ModelId, DeviceTypeId, int64_t>, Work> works_;
};

}  // namespace hase::world

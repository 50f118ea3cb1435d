#include "apps/sim_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "cluster/cluster_file.h"
#include "placement/bounds.h"

namespace hase::apps {
namespace {

using execution::SimCase;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Cards of one type whose speeds lie close together; their times are those of the fastest.
struct Bucket {
  std::vector<DeviceId> devices;
};

// The world's speed of a card against its type, by any model that runs there.
double CardSpeed(const SimCase& sim, DeviceId device) {
  for (const auto& job : sim.jobs) {
    if (const auto solo = sim.world->Alone(job.model, device, job.job.batch)) return solo->batch_s;
  }
  return 1;
}

std::vector<Bucket> MakeBuckets(const SimCase& sim) {
  std::map<DeviceTypeId, std::vector<std::pair<double, DeviceId>>> by_type;
  for (const auto& d : sim.cluster.devices) {
    by_type[d.type].emplace_back(CardSpeed(sim, d.id), d.id);
  }
  std::vector<Bucket> buckets;
  for (auto& [type, cards] : by_type) {
    std::sort(cards.begin(), cards.end());
    double first = 0;
    for (const auto& [seconds, id] : cards) {
      // One per cent wide: what grouping costs the bound.
      if (first == 0 || seconds > first * 1.01) {
        buckets.emplace_back();
        first = seconds;
      }
      buckets.back().devices.push_back(id);
    }
  }
  return buckets;
}

bool MayRun(const SimCase& sim, size_t j, DeviceTypeId type) {
  const auto& job = sim.jobs[j].job;
  const auto& t = sim.cluster.types[type.index()];
  const bool wanted = job.device_types.empty() ||
                      std::any_of(job.device_types.begin(), job.device_types.end(),
                                  [&](const auto& wish) { return cluster::NamesType(wish, t); });
  return wanted && sim.estimator->Find(sim.jobs[j].model, type, job.batch) != nullptr;
}

bool Shares(const cluster::Device& device) {
  return std::any_of(device.modes.begin(), device.modes.end(), [](cluster::ShareMode mode) {
    return mode != cluster::ShareMode::kExclusive && mode != cluster::ShareMode::kMig;
  });
}

// Greatest sum of 1 / slow-down over pairs and triples of the run's kinds on the device.
double GreatestGain(const SimCase& sim, DeviceId device) {
  std::set<std::pair<ModelId, int64_t>> distinct;
  for (const auto& job : sim.jobs) {
    if (job.job.sharing != workload::Sharing::kNever && distinct.size() < 24) {
      distinct.emplace(job.model, job.job.batch);
    }
  }
  const std::vector<std::pair<ModelId, int64_t>> kinds(distinct.begin(), distinct.end());
  double greatest = 1;
  const auto look = [&](std::vector<size_t> set) {
    std::vector<world::Occupant> occupants;
    for (const size_t k : set) {
      occupants.push_back({kinds[k].first, kinds[k].second, MilliShare(1000 / std::ssize(set)),
                           cluster::ShareMode::kMps});
    }
    std::vector<double> factors(set.size(), 1);
    sim.world->Slowdowns(device, occupants, factors);
    double sum = 0;
    for (const double f : factors) sum += 1 / f;
    greatest = std::max(greatest, sum);
  };
  for (size_t a = 0; a < kinds.size(); ++a) {
    for (size_t b = a; b < kinds.size(); ++b) {
      look({a, b});
      for (size_t c = b; c < kinds.size(); ++c) look({a, b, c});
    }
  }
  return greatest;
}

placement::BoundJob BoundJobOf(const SimCase& sim, size_t j, const std::vector<Bucket>& buckets,
                               Nanos first, int mix) {
  const auto& job = sim.jobs[j].job;
  placement::BoundJob out;
  out.release_s = ToSeconds(job.arrival - first);
  out.divisible = job.max_parallel > 1;
  out.gang = job.gang;
  const double factor = j < sim.job_factors.size() ? sim.job_factors[j] : 1.0;
  const double batches = placement::BatchesPerSlot(job.inputs, job.batch, job.gang);
  for (const auto& bucket : buckets) {
    double least = kNever;
    for (const DeviceId d : bucket.devices) {
      if (!MayRun(sim, j, sim.cluster.devices[d.index()].type)) break;
      const auto solo = sim.world->Alone(sim.jobs[j].model, d, job.batch);
      if (!solo) break;
      const bool whole =
          job.sharing == workload::Sharing::kNever || !Shares(sim.cluster.devices[d.index()]);
      const double use =
          whole || mix < 0 ? 1 : sim.world->LeastUse(sim.jobs[j].model, d, job.batch, mix);
      // Loading leaves a shared card to the others; alone it does not.
      const double load = whole || mix < 0 ? solo->load_s : 0;
      least = std::min(least, load + solo->batch_s * batches * factor * use);
    }
    out.p_s.push_back(least);
  }
  return out;
}

}  // namespace

Bounds LowerBounds(const SimCase& sim) {
  Bounds bounds;
  if (sim.jobs.empty() || sim.cluster.devices.empty()) return bounds;
  Nanos first = Nanos::Max();
  for (const auto& j : sim.jobs) first = std::min(first, j.job.arrival);
  const auto buckets = MakeBuckets(sim);
  const auto instance = [&](int mix) {
    placement::BoundInstance out;
    for (const auto& b : buckets) out.classes.push_back({static_cast<int>(b.devices.size()), 1.0});
    for (size_t j = 0; j < sim.jobs.size(); ++j) {
      auto job = BoundJobOf(sim, j, buckets, first, mix);
      const bool runs =
          std::any_of(job.p_s.begin(), job.p_s.end(), [](double p) { return std::isfinite(p); });
      if (runs) out.jobs.push_back(std::move(job));
    }
    return out;
  };
  // Every job takes at least its solo time after its arrival, and the work must fit.
  placement::BoundInstance solo = instance(-1);
  bounds.mean_flow_s = placement::MeanFlowLowerBound(solo);
  for (const auto& j : solo.jobs) {
    if (j.divisible || j.gang > 1) continue;
    const double least = *std::min_element(j.p_s.begin(), j.p_s.end());
    bounds.makespan_s = std::max(bounds.makespan_s, j.release_s + least);
  }
  const bool uses = sim.world->mixes() > 1;
  for (int mix = 0; mix < sim.world->mixes(); ++mix) {
    auto shared = instance(mix);
    for (size_t c = 0; c < buckets.size() && !uses; ++c) {
      const auto& device = sim.cluster.devices[buckets[c].devices[0].index()];
      if (Shares(device)) shared.classes[c].sigma = GreatestGain(sim, device.id);
    }
    bounds.makespan_s = std::max(bounds.makespan_s, placement::MakespanLowerBound(shared, 8));
  }
  return bounds;
}

}  // namespace hase::apps

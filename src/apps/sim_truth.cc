#include "apps/sim_truth.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cluster/cluster_file.h"

namespace hase::apps {
namespace {

using execution::SimCase;
// More would make the bounds' linear programmes slow.
constexpr size_t kMostGroups = 40;
constexpr double kNever = std::numeric_limits<double>::infinity();

bool Shares(const cluster::Device& device) {
  return std::any_of(device.modes.begin(), device.modes.end(), [](cluster::ShareMode mode) {
    return mode != cluster::ShareMode::kExclusive && mode != cluster::ShareMode::kMig;
  });
}

// The least noise of the job's starts; of a cut one, of as many parts as matter.
double LeastNoise(const SimCase& sim, size_t j, uint64_t starts) {
  double least = kNever;
  if (sim.jobs[j].job.max_parallel > 1) starts = 64;
  for (uint64_t run = 0; run < starts; ++run) {
    least = std::min(least, sim.world->RunNoise(JobId(static_cast<uint32_t>(j)), run));
  }
  return least;
}

// The world's speed of a card against its type, by the first model that runs there.
double CardSpeed(const SimCase& sim, DeviceId device) {
  for (const auto& job : sim.jobs) {
    if (const auto solo = sim.world->Alone(job.model, device, job.job.batch)) return solo->batch_s;
  }
  return 1;
}

}  // namespace

void SimTruth::MakeGroups(double width) {
  // By type and by whether it shares.
  std::map<std::pair<DeviceTypeId, bool>, std::vector<std::pair<double, DeviceId>>> by_type;
  for (const auto& d : sim_.cluster.devices) {
    by_type[{d.type, Shares(d)}].emplace_back(CardSpeed(sim_, d.id), d.id);
  }
  for (auto& [key, cards] : by_type) std::sort(cards.begin(), cards.end());
  do {
    groups_.clear();
    for (const auto& [key, cards] : by_type) {
      double first = 0;
      for (const auto& [seconds, id] : cards) {
        if (first == 0 || seconds > first * (1 + width)) {
          groups_.push_back({key.first, {}, key.second});
          first = seconds;
        }
        groups_.back().cards.push_back(id);
      }
    }
    width *= 2;
  } while (groups_.size() > std::max(kMostGroups, by_type.size()));
}

SimTruth::SimTruth(const SimCase& sim, double width, uint64_t starts) : sim_(sim) {
  MakeGroups(width);
  std::map<std::pair<ModelId, int64_t>, size_t> kinds;
  std::vector<std::pair<ModelId, int64_t>> list;
  for (size_t j = 0; j < sim.jobs.size(); ++j) {
    const auto& job = sim.jobs[j].job;
    const auto [at, added] = kinds.try_emplace({sim.jobs[j].model, job.batch}, list.size());
    if (added) list.emplace_back(sim.jobs[j].model, job.batch);
    kind_of_.push_back(at->second);
    const double factor = j < sim.job_factors.size() ? sim.job_factors[j] : 1.0;
    batches_.push_back(placement::BatchesPerSlot(job.inputs, job.batch, job.gang) * factor *
                       LeastNoise(sim, j, starts));
  }
  const int mixes = sim.world->mixes();
  for (const auto& [model, batch] : list) {
    auto& row = times_.emplace_back(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!sim.estimator->Find(model, groups_[g].type, batch)) continue;
      Time& time = row[g];
      time.load_s = kNever;
      time.use.assign(static_cast<size_t>(mixes), 1.0);
      for (const DeviceId card : groups_[g].cards) {
        const auto solo = sim.world->Alone(model, card, batch);
        if (!solo) continue;
        time.batch_s = std::min(time.batch_s, solo->batch_s);
        time.load_s = std::min(time.load_s, solo->load_s);
        time.speed += 1 / solo->batch_s;
        for (int m = 0; m < mixes; ++m) {
          auto& use = time.use[static_cast<size_t>(m)];
          use = std::min(use, sim.world->LeastUse(model, card, batch, m));
        }
      }
    }
  }
}

bool SimTruth::Admits(size_t job, size_t group) const {
  const auto& types = sim_.jobs[job].job.device_types;
  const auto& type = sim_.cluster.types[groups_[group].type.index()];
  return std::isfinite(times_[kind_of_[job]][group].batch_s) &&
         (types.empty() || std::any_of(types.begin(), types.end(), [&](const auto& wish) {
            return cluster::NamesType(wish, type);
          }));
}

double SimTruth::Solo(size_t job, size_t group) const {
  if (!Admits(job, group)) return kNever;
  const Time& t = time(kind_of_[job], group);
  return t.load_s + t.batch_s * batches_[job];
}

bool IsOffline(const SimCase& sim) {
  return std::all_of(sim.jobs.begin(), sim.jobs.end(),
                     [&](const auto& j) { return j.job.arrival == sim.jobs.front().job.arrival; });
}

double TrueLoad(const SimCase& sim, const SimTruth& truth) {
  if (sim.jobs.empty() || IsOffline(sim)) return 0;
  Nanos first = Nanos::Max(), last;
  double work = 0;
  for (size_t j = 0; j < sim.jobs.size(); ++j) {
    first = std::min(first, sim.jobs[j].job.arrival);
    last = std::max(last, sim.jobs[j].job.arrival);
    double speed = 0;
    for (size_t g = 0; g < truth.groups().size(); ++g) {
      const double solo = truth.Solo(j, g);
      if (!std::isfinite(solo)) continue;
      speed += static_cast<double>(truth.groups()[g].cards.size()) / solo;
    }
    if (speed > 0) work += sim.jobs[j].job.gang / speed;
  }
  return work / ToSeconds(last - first);
}

void SetTrueLoad(SimCase& sim, double load) {
  const double now = TrueLoad(sim, SimTruth(sim));
  if (now <= 0 || load <= 0) return;
  Nanos first = Nanos::Max();
  for (const auto& j : sim.jobs) first = std::min(first, j.job.arrival);
  for (auto& j : sim.jobs) {
    const Nanos arrival = first + Scale(j.job.arrival - first, now / load);
    if (j.job.deadline) *j.job.deadline += arrival - j.job.arrival;
    j.job.arrival = arrival;
  }
}

}  // namespace hase::apps

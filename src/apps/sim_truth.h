// The world's true times of a simulation, by kind of work and group of alike cards: what bounds and
// loads are computed from. A kind is a (model, batch); a group holds cards of one type whose speeds
// lie within `width` of each other, and its times are those of its fastest card. So thousands of
// jobs on thousands of cards cost a table of kinds x groups.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "execution/backends/simulated/sim_case.h"

namespace hase::apps {

class SimTruth {
 public:
  struct Time {
    double batch_s = std::numeric_limits<double>::infinity();  // infinite: cannot run there
    double load_s = 0;
    double speed = 0;         // sum over the group's cards of 1 / batch_s
    std::vector<double> use;  // by mix: World::LeastUse, the least over the group
  };
  struct Group {
    DeviceTypeId type;
    std::vector<DeviceId> cards;
    bool shares = false;  // has a mode of sharing
  };

  // The case outlives the truth. `width` 0.01: groups one per cent wide; doubled until there are at
  // most forty, or one for each type.
  // `starts`: how often an uncut job may have begun anew, which draws its noise again. Injected
  // faults are not counted: with them nothing here bounds a run.
  explicit SimTruth(const execution::SimCase& sim, double width = 0.01, uint64_t starts = 1);

  const std::vector<Group>& groups() const { return groups_; }
  size_t kind_of(size_t job) const { return kind_of_[job]; }
  size_t kinds() const { return times_.size(); }
  const Time& time(size_t kind, size_t group) const { return times_[kind][group]; }
  // Batches of the job on one device, its factor of misprediction and its noise counted.
  double batches(size_t job) const { return batches_[job]; }
  // By its wish of types and by what the predictor can estimate at all.
  bool Admits(size_t job, size_t group) const;
  // Solo seconds on the group's fastest card, loading included; infinite where it cannot run.
  double Solo(size_t job, size_t group) const;

 private:
  void MakeGroups(double width);
  const execution::SimCase& sim_;
  std::vector<Group> groups_;
  std::vector<size_t> kind_of_;
  std::vector<double> batches_;
  std::vector<std::vector<Time>> times_;  // [kind][group]
};

// Every arrival at the same moment.
bool IsOffline(const execution::SimCase& sim);
// Work that arrives per second over what the cluster can do without sharing, by the world's own
// times: each job costs its harmonic mean over the cards that may run it. 0 offline.
double TrueLoad(const execution::SimCase& sim, const SimTruth& truth);
// Stretches or squeezes the times between arrivals so that TrueLoad becomes `load`; deadlines keep
// their distance from the arrival. Offline: nothing.
void SetTrueLoad(execution::SimCase& sim, double load);

}  // namespace hase::apps

// The list schedule and its promises.
#include <algorithm>
#include <cmath>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {
// Queues up to this length are planned to the end: polishing and cutting need the whole plan.
constexpr size_t kWholePlan = 96;
// The same for small clusters, where plans are cheap.
constexpr size_t kSmallCluster = 64, kWholeSmall = 256;
constexpr size_t kLongQueue = 4;  // jobs per device
}  // namespace

void Hase::Refine(const PlanningView& view, const QueuedJob& job, std::vector<Spot>& spots) const {
  bool changed = false;
  for (Spot& spot : spots) {
    const DeviceState& device = view.devices[spot.device.index()];
    const bool strangers =
        device.foreign.valid && (device.foreign.sm > 0 || device.foreign.dram > 0);
    if (spot.start > view.now || (device.warm.empty() && !strangers)) continue;
    const auto solo = SoloTime(view, job, job.inputs_left, device);
    if (!solo) continue;
    double slow = 1;
    if (strangers) {
      slow = view.estimator->Slowdown({job.model, job.batch, kWholeDevice}, device.type, {},
                                      device.foreign);
    }
    spot.finish = spot.start + FromSeconds(solo->mean_s * slow);
    changed = true;
  }
  if (!changed) return;
  std::ranges::stable_sort(spots, {}, &Spot::finish);
}

void Hase::Commit(const PlanningView& view, const QueuedJob& job, Planned planned) {
  planned.job = &job;
  const bool now = planned.start() <= view.now;
  const auto row = table_.Get(view, job);
  for (const Spot& spot : planned.spots) {
    const DeviceState& device = view.devices[spot.device.index()];
    const JobOnType& on = row[device.type.index()];
    timeline_.Reserve(spot.device, {job.id, spot.start, spot.finish, kWholeDevice, on.memory,
                                    on.variance_s2 * device.speed_factor * device.speed_factor});
    if (now) {
      book_.Add(job, {spot.device, kWholeDevice, cluster::ShareMode::kExclusive}, on.memory);
    }
  }
  if (job.gang > 1) {
    frontier_.TakeGang(planned.spots, planned.finish());
  } else {
    frontier_.Take(planned.spots[0], planned.finish());
  }
  if (!now) ++blocked_;
  placed_in_[job.id.index()] = pass_;
  planned_.push_back(std::move(planned));
}

// Where company pays and the queue is long, a job that shares with nobody keeps off the types that
// others use better; its own finish comes second, unless it has waited too long already.
bool Hase::KeepsOff(const PlanningView& view, const QueuedJob& job) const {
  return job.sharing == workload::Sharing::kNever && options_.sharing && !IsOverdue(view, job) &&
         order_.size() > kLongQueue * view.devices.size();
}

void Hase::PreferSuited(const PlanningView& view, const QueuedJob& job) {
  constexpr double kSuited = 0.8;
  enum : char { kUnknown, kNo, kYes };
  suited_.assign(view.types.size(), kUnknown);
  std::ranges::stable_partition(spots_, [&](const Spot& spot) {
    const DeviceTypeId type = view.devices[spot.device.index()].type;
    char& known = suited_[type.index()];
    if (known == kUnknown) known = Suits(view, job, type) >= kSuited ? kYes : kNo;
    return known == kYes;
  });
}

bool Hase::Place(const PlanningView& view, const QueuedJob& job) {
  const auto row = table_.Get(view, job);
  // What starts now does so on a device without residents, of a type that admits the job.
  const auto fits = [&](DeviceId id, Nanos start) {
    return start > view.now ||
           (book_.Added(id).empty() && HostFits(job, book_.Free(view.devices[id.index()].node)));
  };
  const bool for_the_record = blocked_ < options_.reservation_depth;
  Planned planned;
  if (job.gang > 1) {
    planned.spots = frontier_.FindGang(view, job, row);
    for (const Spot& spot : planned.spots) {
      if (!fits(spot.device, spot.start)) return false;
    }
    if (planned.spots.empty()) return false;
    if (planned.start() <= view.now && !HostsHold(view, job, planned.spots)) {
      planned.spots = IdleOverHosts(view, job);
      if (planned.spots.empty()) return false;
    }
  } else {
    const bool keeps_off = KeepsOff(view, job);
    frontier_.Find(view, row, static_cast<int>(options_.candidates),
                   /*only_best=*/!for_the_record && !keeps_off, fits, spots_);
    if (spots_.empty()) return false;
    Refine(view, job, spots_);
    if (keeps_off) PreferSuited(view, job);
    planned.spots.push_back(spots_.front());
    // Runners-up are for the record of what is started or promised; the long tail needs none.
    if (spots_.front().start <= view.now || for_the_record) {
      const size_t count = std::min<size_t>(spots_.size(), 4);
      planned.runners_up.assign(spots_.begin() + 1,
                                spots_.begin() + static_cast<std::ptrdiff_t>(count));
    }
  }
  Commit(view, job, std::move(planned));
  return true;
}

bool Hase::HostsHold(const PlanningView& view, const QueuedJob& job,
                     std::span<const Spot> spots) const {
  std::vector<Slot> slots;
  for (const Spot& spot : spots) slots.push_back({spot.device});
  return GangFitsHosts(view, book_, job, slots);
}

// A gang whose best devices sit on hosts without room for all its members takes idle devices node
// by node instead.
std::vector<Spot> Hase::IdleOverHosts(const PlanningView& view, const QueuedJob& job) {
  const auto row = table_.Get(view, job);
  const auto idle = [&](size_t i) -> std::optional<Spot> {
    const DeviceState& device = view.devices[i];
    const JobOnType& on = row[device.type.index()];
    if (!device.up || !device.residents.empty() || !on.possible) return {};
    const auto spot = frontier_.SpotOf(view, on, device.id);
    if (!spot || spot->start > view.now || !book_.Added(device.id).empty()) return {};
    return spot;
  };
  std::vector<Spot> spots =
      SpreadOverHosts(static_cast<size_t>(job.gang), view.devices.size(), idle,
                      [&](std::span<const Spot> members) { return HostsHold(view, job, members); });
  Nanos time, late;
  for (const Spot& spot : spots) {
    time = std::max(time, spot.finish - spot.start);
    late = std::max(late, spot.late - spot.start);
  }
  for (Spot& s : spots) s = {s.device, view.now, view.now + time, view.now + late, false};
  return spots;
}

bool Hase::PlaceOn(const PlanningView& view, const QueuedJob& job, const Promise& promise) {
  const auto row = table_.Get(view, job);
  Planned planned;
  Nanos start, time, late;
  for (const DeviceId id : promise.devices) {
    if (id.index() >= view.devices.size()) return false;
    const JobOnType& on = row[view.devices[id.index()].type.index()];
    const auto spot = on.possible ? frontier_.SpotOf(view, on, id) : std::nullopt;
    if (!spot) return false;
    planned.spots.push_back(*spot);
    start = std::max(start, spot->start);
    time = std::max(time, spot->finish - spot->start);
    late = std::max(late, spot->late - spot->start);
  }
  if (planned.spots.size() != static_cast<size_t>(job.gang)) return false;
  for (Spot& spot : planned.spots) spot = {spot.device, start, start + time, start + late, false};
  if (start <= view.now) {
    for (const Spot& spot : planned.spots) {
      const Slot slot{spot.device, kWholeDevice, cluster::ShareMode::kExclusive};
      if (FitsNow(view, book_, job, slot) != Obstacle::kNone) return false;
    }
    if (job.gang > 1 && !HostsHold(view, job, planned.spots)) return false;
  }
  Commit(view, job, std::move(planned));
  return true;
}

double Hase::Pass(const PlanningView& view, PassKind kind) {
  ++pass_;
  blocked_ = 0;
  planned_.clear();
  book_.Begin(view);
  frontier_.Begin(view);
  timeline_.Clear(view.devices.size());
  std::vector<const QueuedJob*> promised;
  for (const Rank& rank : order_) {
    const size_t i = rank.job->id.index();
    if (i >= placed_in_.size()) placed_in_.resize(2 * i + 1);
    if (IsPromised(rank.job->id)) promised.push_back(rank.job);
  }
  size_t promised_left = promised_count_ = promised.size();
  if (kind == PassKind::kPromisedFirst) {
    std::ranges::stable_sort(promised, {}, [&](const QueuedJob* job) {
      return promises_[job->id.index()]->planned_start;
    });
    for (const QueuedJob* job : promised) PlaceOn(view, *job, *promises_[job->id.index()]);
    promised_left = 0;
  }
  const bool whole = order_.size() <= kWholePlan ||
                     (order_.size() <= kWholeSmall && view.devices.size() <= kSmallCluster);
  // Who may start beside others must be in the plan.
  const int least_blocked = static_cast<int>(
      std::max<int64_t>(options_.reservation_depth, options_.sharing ? Partners(view) : 0));
  complete_ = true;
  left_out_s_ = 0;
  for (const Rank& rank : order_) {
    const size_t i = rank.job->id.index();
    if (placed_in_[i] == pass_) continue;
    if (!whole && frontier_.idle() == 0 && promised_left == 0 && blocked_ >= least_blocked) {
      complete_ = false;
      left_out_s_ = LeastOfUnplaced(view);
      break;
    }
    const bool placed = Place(view, *rank.job);
    if (promised_left == 0 || !IsPromised(rank.job->id)) continue;
    --promised_left;
    if (kind == PassKind::kInOrderUntilLate && placed) {
      if (const double late = LatenessOf(view, planned_.back()); late > 0) return late;
    }
  }
  return 0;
}

double Hase::LeastOfUnplaced(const PlanningView& view) {
  double sum = 0;
  for (const Rank& rank : order_) {
    if (placed_in_[rank.job->id.index()] == pass_) continue;
    sum += table_.Least(view, *rank.job) * rank.job->gang;
  }
  return sum;
}

void Hase::MakePlan(const PlanningView& view) {
  // Mostly the first job that would start too late settles it: the promised ones go first.
  const double first_late = Pass(view, PassKind::kInOrderUntilLate);
  const double least = first_late > 0 ? first_late : Lateness(view);
  if (least > 0) {
    Pass(view, PassKind::kPromisedFirst);
    const double kept = Lateness(view);
    if (kept < least) return;
    Pass(view, PassKind::kInOrder);
    if (kept < Lateness(view)) {
      Pass(view, PassKind::kPromisedFirst);
      return;
    }
    // Overruns have broken them; nothing is gained by another order.
  }
  if (options_.polish && options_.objective == Objective::kMakespan && complete_) Polish(view);
}

}  // namespace hase::placement

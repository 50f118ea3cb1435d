// Polish: a list schedule of unlike devices may end late on one of them. For small queues, moves
// and swaps off the device that ends last, as long as the plan's end comes earlier (steepest
// descent on the makespan; cf. Vredeveld and Hurkens 2002, "Experimental comparison of
// approximation algorithms for scheduling unrelated parallel machines").
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {

constexpr size_t kMostJobs = 48, kMostDevices = 16;
constexpr int kMostSteps = 160;

struct Assignment {
  std::vector<std::vector<double>> time;  // job × device; infinite = impossible
  std::vector<double> load;               // by device: busy so far and assigned
  std::vector<size_t> on;                 // by job

  double End() const { return *std::ranges::max_element(load); }
  // The plan's end if these two loads replaced those of a and b.
  double EndWith(size_t a, double load_a, size_t b, double load_b) const {
    double end = std::max(load_a, load_b);
    for (size_t d = 0; d < load.size(); ++d) {
      if (d != a && d != b) end = std::max(end, load[d]);
    }
    return end;
  }
  void Move(size_t job, size_t to) {
    load[on[job]] -= time[job][on[job]];
    load[to] += time[job][to];
    on[job] = to;
  }
};

// What an hour of each device is worth: the inverse of how much longer than at their best jobs take
// there. Σ load · worth is the work done; a plan that does it where it costs least ends first once
// its end is levelled.
std::vector<double> Worth(const Assignment& a) {
  std::vector<double> worth(a.load.size(), 0);
  for (size_t d = 0; d < worth.size(); ++d) {
    double ratios = 0;
    int count = 0;
    for (const auto& row : a.time) {
      if (!std::isfinite(row[d])) continue;
      ratios += row[d] / *std::ranges::min_element(row);
      ++count;
    }
    worth[d] = count > 0 ? count / ratios : 0;
  }
  return worth;
}

// The move or swap that saves most work without ending any device later than the last one ends.
bool Save(Assignment& a, const std::vector<double>& worth) {
  const double end = a.End();
  double best = 1e-9 * end;
  size_t best_job = SIZE_MAX, best_to = 0, best_swap = SIZE_MAX;
  for (size_t j = 0; j < a.on.size(); ++j) {
    const size_t from = a.on[j];
    const double worth_here = worth[from] * a.time[j][from];
    for (size_t d = 0; d < a.load.size(); ++d) {
      if (d == from || a.load[d] + a.time[j][d] > end) continue;
      const double saved = worth_here - worth[d] * a.time[j][d];
      if (saved > best) best = saved, best_job = j, best_to = d, best_swap = SIZE_MAX;
    }
    for (size_t k = j + 1; k < a.on.size(); ++k) {
      const size_t d = a.on[k];
      if (d == from) continue;
      if (a.load[from] - a.time[j][from] + a.time[k][from] > end) continue;
      if (a.load[d] - a.time[k][d] + a.time[j][d] > end) continue;
      const double saved = worth_here + worth[d] * a.time[k][d] - worth[d] * a.time[j][d] -
                           worth[from] * a.time[k][from];
      if (saved > best) best = saved, best_job = j, best_to = d, best_swap = k;
    }
  }
  if (best_job == SIZE_MAX) return false;
  if (best_swap != SIZE_MAX) a.Move(best_swap, a.on[best_job]);
  a.Move(best_job, best_to);
  return true;
}

// One improving step off the last device; false if there is none.
bool Step(Assignment& a) {
  const size_t last = static_cast<size_t>(std::ranges::max_element(a.load) - a.load.begin());
  double best = a.load[last] * (1 - 1e-9);
  size_t best_job = SIZE_MAX, best_to = 0, best_swap = SIZE_MAX;
  for (size_t j = 0; j < a.on.size(); ++j) {
    if (a.on[j] != last) continue;
    for (size_t d = 0; d < a.load.size(); ++d) {
      if (d == last) continue;
      const double left = a.load[last] - a.time[j][last], grown = a.load[d] + a.time[j][d];
      if (const double end = a.EndWith(last, left, d, grown); end < best) {
        best = end, best_job = j, best_to = d, best_swap = SIZE_MAX;
      }
    }
    for (size_t k = 0; k < a.on.size(); ++k) {
      const size_t d = a.on[k];
      if (d == last) continue;
      const double here = a.load[last] - a.time[j][last] + a.time[k][last];
      const double there = a.load[d] - a.time[k][d] + a.time[j][d];
      if (const double end = a.EndWith(last, here, d, there); end < best) {
        best = end, best_job = j, best_to = d, best_swap = k;
      }
    }
  }
  if (best_job == SIZE_MAX) return false;
  if (best_swap != SIZE_MAX) a.Move(best_swap, last);
  a.Move(best_job, best_to);
  return true;
}

}  // namespace

void Hase::Polish(const PlanningView& view) {
  const double lateness = Lateness(view);
  const size_t jobs = planned_.size(), devices = view.devices.size();
  if (jobs < 2 || jobs > kMostJobs || devices > kMostDevices) return;
  for (const Planned& p : planned_) {
    if (p.job->gang > 1 || p.job->host_cores_milli > 0 || p.job->host_memory > Bytes(0)) return;
  }
  for (const Rank& rank : order_) {
    if (rank.tier != Rank::kOrdinary || rank.priority != order_[0].priority) return;
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  frontier_.Begin(view);
  Assignment a;
  a.time.assign(jobs, std::vector<double>(devices, kNever));
  a.load.assign(devices, 0);
  a.on.resize(jobs);
  for (size_t d = 0; d < devices; ++d) {
    const auto spot = frontier_.SpotOf(view, JobOnType{}, DeviceId(static_cast<uint32_t>(d)));
    if (!spot) continue;
    a.load[d] = ToSeconds(spot->start - view.now);
    for (size_t j = 0; j < jobs; ++j) {
      const JobOnType& on = table_.Get(view, *planned_[j].job)[view.devices[d].type.index()];
      if (on.possible && on.memory <= view.devices[d].memory_total) {
        a.time[j][d] = on.mean_s * view.devices[d].speed_factor;
      }
    }
  }
  for (size_t j = 0; j < jobs; ++j) {
    a.on[j] = planned_[j].spots[0].device.index();
    a.load[a.on[j]] += a.time[j][a.on[j]];
  }
  const double before = a.End();
  const std::vector<double> worth = Worth(a);
  const auto work = [&] {
    return std::inner_product(a.load.begin(), a.load.end(), worth.begin(), 0.0);
  };
  const double work_before = work();
  for (int step = 0; step < kMostSteps && (Step(a) || Save(a, worth)); ++step) {
  }
  // Work that is saved ends a plan earlier only where jobs can be cut to level it.
  const bool divisible = options_.chunking && std::ranges::any_of(planned_, [](const Planned& p) {
                           return p.job->max_parallel > 1;
                         });
  const bool better =
      a.End() < before * 0.999 || (divisible && a.End() <= before && work() < work_before * 0.999);
  if (!better) {
    Pass(view, PassKind::kInOrder);
    return;
  }
  // The same jobs in the same order, each on its new device.
  std::vector<Planned> old = std::move(planned_);
  planned_.clear();
  ++pass_;
  blocked_ = 0;
  book_.Begin(view);
  frontier_.Begin(view);
  timeline_.Clear(view.devices.size());
  for (size_t j = 0; j < jobs; ++j) {
    const DeviceId device(static_cast<uint32_t>(a.on[j]));
    const auto& row = table_.Get(view, *old[j].job);
    const auto spot =
        frontier_.SpotOf(view, row[view.devices[device.index()].type.index()], device);
    Planned planned;
    planned.spots.push_back(*spot);
    planned.runners_up = std::move(old[j].runners_up);
    if (device != old[j].spots[0].device) {
      planned.runners_up.insert(planned.runners_up.begin(), old[j].spots[0]);
    }
    Commit(view, *old[j].job, std::move(planned));
  }
  if (Lateness(view) > lateness) Pass(view, PassKind::kInOrder);
}

}  // namespace hase::placement

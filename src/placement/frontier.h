// Frontier: the index behind "where would this job finish first?". Devices are grouped by class
// (type × speed bucket); within a class a heap holds the time at which each is next free. One
// question costs a look at the top of each class, not a scan of the devices, and one plan may
// place thousands of jobs one behind the other.
//
// A plan works on a copy of the heaps (Begin), so nothing needs to be undone. Gaps that gangs leave
// in front of their common start are kept per class and offered to jobs that surely end before.
// What is shared among devices in the future (host cores, other residents' memory) is not
// predicted; a start *now* is tested by admission.
#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "placement/admission.h"
#include "placement/forecast.h"
#include "placement/view.h"

namespace hase::placement {

// What the index knows of one job on one device type, remembered from its first sight.
struct JobOnType {
  bool possible = false;
  double mean_s = 0;  // cold, at speed factor 1
  double load_s = 0;  // of which loading
  double late_s = 0;  // exceeded with probability 0.05
  double variance_s2 = 0;
  Bytes memory;
};

class JobTable {
 public:
  // Valid until the next call with another job.
  std::span<const JobOnType> Get(const PlanningView& view, const QueuedJob& job);
  // Least mean time over the types; infinite if no type is possible.
  double Least(const PlanningView& view, const QueuedJob& job);
  void SetSharing(bool sharing) { sharing_ = sharing; }
  // Plan with `late_s` = mean: an ablation.
  void SetMeansOnly(bool means_only) { means_only_ = means_only; }

 private:
  void Fill(const PlanningView& view, const QueuedJob& job, std::span<JobOnType> row);
  struct Seen {
    int64_t inputs = -1;
    int64_t batch = 0;
    double memory_factor = 0;
    double least_s = 0;
  };
  std::vector<Seen> seen_;        // by job
  std::vector<JobOnType> cells_;  // job × type
  size_t types_ = 0;
  bool sharing_ = false;
  bool means_only_ = false;
};

struct Spot {
  DeviceId device;
  Nanos start, finish;  // mean
  Nanos late;           // finish exceeded with probability 0.05, if it starts at `start`
  bool in_gap = false;
  uint32_t at = 0;  // a hint for Take()
};

class Frontier {
 public:
  // `sharing`: devices that can enforce shares count as two servers of half a device.
  explicit Frontier(bool sharing = false) : sharing_(sharing) {}

  void Update(const PlanningView& view);  // forecasts what changed; call once per Decide()
  void Begin(const PlanningView& view);   // a fresh plan
  // Spots of least finish, best first: at most `per_class` of each class. `admits(device, start)`
  // has the last word. `only_best`: of those that start later only the very first is needed; which
  // others are given is not determined.
  template <typename Admits>
  void Find(const PlanningView& view, std::span<const JobOnType> job, int per_class, bool only_best,
            Admits&& admits, std::vector<Spot>& out) const;
  // The gang's devices that together finish first, of one type or of several.
  std::vector<Spot> FindGang(const PlanningView& view, const QueuedJob& job,
                             std::span<const JobOnType> row) const;
  // Where this device is next free; nullopt if it is down or never free.
  std::optional<Spot> SpotOf(const PlanningView& view, const JobOnType& job, DeviceId device) const;
  // When what runs on this device now has ended (mean); Nanos::Max() if it never does.
  Nanos FreeAt(const PlanningView& view, DeviceId device) const;
  void Take(const Spot& spot, Nanos until);
  // The last thing taken on this device ends earlier than said.
  void Shorten(DeviceId device, Nanos until);
  // Every device of a gang until `until`; what lies idle before the common start becomes a gap.
  void TakeGang(std::span<const Spot> spots, Nanos until);
  // Devices (servers) free now and not taken by the plan.
  int idle() const { return idle_; }
  // When all devices would end together if the plan's work could be levelled: the mean of the times
  // at which they are free, weighted by their speed for this job.
  Nanos LevelEnd(std::span<const JobOnType> job) const;
  // Jobs like this that all devices together do per second.
  double SpeedFor(std::span<const JobOnType> job) const;
  const DeviceForecast& ForecastOf(DeviceId device) const { return forecasts_[device.index()]; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Item {
    int64_t free_at;
    double speed;
    uint32_t device;
    bool operator<(const Item& other) const {  // std heaps keep the greatest on top
      if (free_at != other.free_at) return free_at > other.free_at;
      if (speed != other.speed) return speed > other.speed;
      return device > other.device;
    }
  };
  struct Gap {
    Nanos from, until;
    double speed;
    DeviceId device;
  };
  struct Class {
    DeviceTypeId type;
    int bucket = 0;
    double least_speed = 0;  // of its devices: a bound
    size_t place = 0;        // in `tops_`
    std::vector<Item> heap;
    std::vector<Gap> gaps;
  };
  // The first item of each class, in the order of `in_order_`, packed: most questions need no more.
  struct Top {
    int64_t free_at;  // nobody: never
    double speed, least_speed;
    uint32_t type, cls;
    uint32_t gaps;  // how many the class has
  };
  void NoteTop(size_t cls);
  template <typename More>
  void FirstFree(const Class& cls, More&& more) const;
  void Refresh(const PlanningView& view, const DeviceState& device);
  int ClassOf(DeviceTypeId type, double speed);
  void PushServers(const PlanningView& view, const DeviceState& device);
  // What Begin() needs of a device, packed: ten thousand are read for every plan.
  struct Base {
    int64_t free_at = 0;  // 0 = idle
    int64_t started = 0;  // of the resident that ends last
    double speed = 1;
    int32_t cls = 0;
    bool open = false;  // up, and free at some time
  };
  // Lengths are never negative: rounding by truncation spares a library call in the inner loop.
  static Nanos Length(double s, double speed) {
    return Nanos(static_cast<int64_t>(s * speed * 1e9 + 0.5));
  }
  static Spot SpotAt(uint32_t device, double speed, Nanos start, const JobOnType& job) {
    return {DeviceId(device),
            start,
            start + Length(job.mean_s, speed),
            start + Length(job.late_s, speed),
            false,
            0};
  }
  static Spot SpotOn(const Item& item, const JobOnType& job, Nanos now) {
    return SpotAt(item.device, item.speed, std::max(Nanos(item.free_at), now), job);
  }
  void ReplaceInHeap(Class& cls, DeviceId device, uint32_t hint, Nanos until);

  bool sharing_;
  Nanos now_;
  std::vector<DeviceForecast> forecasts_;  // by device
  std::vector<int> class_of_;              // by device
  std::vector<Base> bases_;                // by device
  std::vector<Bytes> memory_;              // by device: total
  std::vector<Class> classes_;
  // By type and bucket: what is asked of the classes must not depend on which was seen first, or a
  // policy made anew would decide otherwise.
  std::vector<int> in_order_;
  std::vector<Top> tops_;
  int idle_ = 0;
  mutable std::vector<std::pair<Item, uint32_t>> scratch_open_;
  mutable std::vector<Spot> scratch_type_, scratch_spots_, scratch_gang_;  // FindGang()
};

template <typename Admits>
void Frontier::Find(const PlanningView& view, std::span<const JobOnType> job, int per_class,
                    bool only_best, Admits&& admits, std::vector<Spot>& out) const {
  out.clear();
  const auto add = [&](const Spot& spot) {
    out.push_back(spot);
    if (!only_best) return;  // sorted at the end
    // Few spots, mostly one: insertion keeps the first of equals first.
    size_t i = out.size() - 1;
    for (; i > 0 && spot.finish < out[i - 1].finish; --i) out[i] = out[i - 1];
    out[i] = spot;
  };
  const int64_t now = view.now.value();
  for (const Top& top : tops_) {
    const JobOnType& on = job[top.type];
    if (!on.possible) continue;
    if (only_best && top.gaps == 0 && top.free_at > now && !out.empty() &&
        (top.free_at == kNever ||
         out.front().finish <= Nanos(top.free_at) + Length(on.mean_s, top.speed))) {
      continue;
    }
    const Class& cls = classes_[top.cls];
    for (const Gap& gap : cls.gaps) {
      Spot spot = SpotAt(gap.device.index(), gap.speed, std::max(gap.from, view.now), on);
      spot.in_gap = true;
      if (spot.late <= gap.until && on.memory <= memory_[gap.device.index()] &&
          admits(gap.device, spot.start)) {
        add(spot);
      }
    }
    // The first few of a binary heap, in order: a child never precedes its parent.
    uint32_t open[64];
    size_t count = 0;
    int found = 0;
    if (!cls.heap.empty()) open[count++] = 0;
    while (count > 0 && found < per_class) {
      size_t best = 0;
      for (size_t i = 1; i < count; ++i) {
        if (cls.heap[open[best]] < cls.heap[open[i]]) best = i;
      }
      const uint32_t at = open[best];
      open[best] = open[--count];
      const Item& item = cls.heap[at];
      Spot spot = SpotOn(item, on, view.now);
      if (only_best && spot.start > view.now && !out.empty() && out.front().finish <= spot.finish) {
        break;
      }
      spot.at = at;
      if (on.memory <= memory_[item.device] && admits(spot.device, spot.start)) {
        add(spot);
        ++found;
        if (only_best && spot.start > view.now) break;
      }
      for (size_t child = 2 * size_t{at} + 1; child <= 2 * size_t{at} + 2; ++child) {
        if (child < cls.heap.size() && count < std::size(open)) {
          open[count++] = static_cast<uint32_t>(child);
        }
      }
    }
  }
  if (!only_best) std::ranges::stable_sort(out, {}, &Spot::finish);
}

}  // namespace hase::placement

#include "placement/shared_optimum.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace hase::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kQuarters = 4;

using JobSet = uint32_t;  // bit j: job j

// Least makespan of each set of jobs on one device. Sets in increasing order: what is left once the
// device has run empty is a smaller set, already known.
class DeviceSearch {
 public:
  DeviceSearch(size_t device, size_t jobs, const SharedWorld& world)
      : device_(device), world_(world), least_(size_t{1} << jobs, kNever) {
    for (size_t j = 0; j < jobs; ++j) left_.push_back(world.SoloSeconds(device, j));
    least_[0] = 0;
    for (JobSet set = 1; set < least_.size(); ++set) {
      best_ = kNever;
      Start(set, 0, 0);
      least_[set] = best_;
    }
  }
  double Least(JobSet set) const { return least_[set]; }

 private:
  int FreeQuarters() const {
    int free = kQuarters;
    for (const Tenure& t : running_) free -= t.quarters;
    return free;
  }

  // At an event at `now`: every way to add jobs of `waiting` from `first` on, then on to the next.
  void Start(JobSet waiting, size_t first, double now) {
    if (now + LongestLeft(waiting) >= best_) return;
    if (!running_.empty()) Proceed(waiting, now);
    for (size_t j = first; j < left_.size(); ++j) {
      if ((waiting >> j & 1) == 0 || left_[j] == kNever) continue;
      for (int quarters = 1; quarters <= FreeQuarters(); ++quarters) {
        running_.push_back({j, quarters});
        Start(waiting & ~(JobSet{1} << j), j + 1, now);
        running_.pop_back();
      }
    }
  }

  // Nobody runs faster than alone.
  double LongestLeft(JobSet waiting) const {
    double longest = 0;
    for (size_t j = 0; j < left_.size(); ++j) {
      if (waiting >> j & 1) longest = std::max(longest, left_[j]);
    }
    for (const Tenure& t : running_) longest = std::max(longest, left_[t.job]);
    return longest;
  }

  // Runs until the first ends (those that end with it, too).
  void Proceed(JobSet waiting, double now) {
    const std::vector<double> rates = world_.Rates(device_, running_);
    if (rates.empty()) return;
    double step = kNever;
    for (size_t i = 0; i < running_.size(); ++i) {
      step = std::min(step, left_[running_[i].job] / rates[i]);
    }
    const std::vector<Tenure> before = running_;
    const std::vector<double> left_before = left_;
    running_.clear();
    for (size_t i = 0; i < before.size(); ++i) {
      const size_t job = before[i].job;
      left_[job] -= step * rates[i];
      if (left_[job] > 1e-9 * left_before[job]) running_.push_back(before[i]);
    }
    if (running_.empty()) {
      best_ = std::min(best_, waiting == 0 ? now + step : now + step + least_[waiting]);
    } else {
      Start(waiting, 0, now + step);
    }
    running_ = before;
    left_ = left_before;
  }

  size_t device_;
  const SharedWorld& world_;
  std::vector<double> least_;  // by set
  std::vector<double> left_;   // solo seconds, by job
  std::vector<Tenure> running_;
  double best_ = kNever;
};

}  // namespace

std::optional<double> OptimalSharedMakespan(size_t devices, size_t jobs, const SharedWorld& world) {
  if (jobs > kMostSharedJobs) return std::nullopt;
  const JobSet all = (JobSet{1} << jobs) - 1;
  // By set: the least makespan of it on the devices so far.
  std::vector<double> least(size_t{all} + 1, kNever);
  least[0] = 0;
  for (size_t d = 0; d < devices; ++d) {
    const DeviceSearch device(d, jobs, world);
    std::vector<double> next = least;
    for (JobSet set = 1; set <= all; ++set) {
      for (JobSet here = set; here != 0; here = (here - 1) & set) {
        next[set] = std::min(next[set], std::max(device.Least(here), least[set & ~here]));
      }
    }
    least = std::move(next);
  }
  return least[all] < kNever ? std::optional(least[all]) : std::nullopt;
}

}  // namespace hase::placement

// Partition: affinity by sched_setaffinity, time and memory by a control group or, failing that,
// left to the worker.
#include "execution/worker/partition.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace hase::execution {

std::string_view ToString(Limiter limiter) {
  switch (limiter) {
    case Limiter::kNone:
      return "none";
    case Limiter::kCgroupV1:
      return "cgroup-v1";
    case Limiter::kCgroupV2:
      return "cgroup-v2";
    case Limiter::kDutyCycle:
      return "duty-cycle";
  }
  return "none";
}

int OnlineCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

namespace {

constexpr Nanos kPeriod = CgroupLimits{}.period;

Limiter OfVersion(int version) { return version == 2 ? Limiter::kCgroupV2 : Limiter::kCgroupV1; }

// Cores this process may use, in order.
std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// The quota per period. The kernel takes no quota below one millisecond, so small ones get a longer
// period.
CgroupLimits LimitsFor(MilliShare quota, size_t cores, Bytes memory = Bytes(0)) {
  if (quota >= kWholeDevice) return {.memory = memory};
  const double part = ToFraction(quota) * static_cast<double>(cores);
  const Nanos period = std::max(kPeriod, Scale(FromMillis(1), 1 / part));
  return {.quota = Scale(period, part), .period = period, .memory = memory};
}

}  // namespace

Result<Partition> Partition::Make(const PartitionSpec& spec) {
  if (spec.quota < MilliShare(1) || spec.quota > kWholeDevice)
    return Invalid(fmt::format("a partition's quota must be above 0 and at most 1, not {}",
                               ToFraction(spec.quota)));
  Partition partition;
  const std::vector<int> allowed = AllowedCores();
  partition.cores_ = spec.cores.empty() ? allowed : spec.cores;
  for (const int core : partition.cores_)
    if (std::find(allowed.begin(), allowed.end(), core) == allowed.end())
      return Invalid(fmt::format("this machine has no core {} for us: it offers {}", core,
                                 fmt::join(allowed, ", ")));
  partition.quota_ = spec.quota;
  if (spec.quota == kWholeDevice && spec.without_cgroups) return partition;
  if (!spec.without_cgroups) {
    const CgroupTrees& trees = MachineCgroups();
    if (auto group = Cgroup::Make(trees, LimitsFor(spec.quota, partition.cores_.size()))) {
      partition.group_ = std::move(*group);
      if (spec.quota < kWholeDevice) partition.limiter_ = OfVersion(trees.version);
      return partition;
    }
  }
  if (spec.quota < kWholeDevice) partition.limiter_ = Limiter::kDutyCycle;
  return partition;
}

Result<Partition> Partition::Divide(MilliShare share, Bytes memory) const {
  if (share < MilliShare(1) || share > kWholeDevice)
    return Invalid(fmt::format("a share must be above 0 and at most 1, not {}", ToFraction(share)));
  Partition part;
  part.cores_ = cores_;
  part.quota_ = MilliShare(std::max<int64_t>(1, quota_.value() * share.value() / 1000));
  if (!group_) {
    if (part.quota_ < kWholeDevice) part.limiter_ = Limiter::kDutyCycle;
    return part;
  }
  const CgroupTrees& trees = MachineCgroups();
  // At a whole share the group above holds the quota already.
  const MilliShare own = share == kWholeDevice ? kWholeDevice : part.quota_;
  const Bytes limit = trees.memory.empty() ? Bytes(0) : memory;
  auto group = Cgroup::Make(trees, LimitsFor(own, cores_.size(), limit), &*group_);
  if (!group) return std::unexpected(group.error());
  part.group_ = std::move(*group);
  if (part.quota_ < kWholeDevice) part.limiter_ = OfVersion(trees.version);
  return part;
}

std::string Partition::Describe() const {
  std::string text = fmt::format("core{} {}, {:g} %", cores_.size() == 1 ? "" : "s",
                                 fmt::join(cores_, ","), ToFraction(quota_) * 100);
  if (limiter_ == Limiter::kNone) return text;
  if (limiter_ == Limiter::kDutyCycle) return text + " (duty-cycle: the worker sleeps)";
  const auto limits = LimitsFor(quota_, cores_.size());
  return text + fmt::format(" ({}, {:.1f} of each {:g} ms)", ToString(limiter_),
                            ToMillis(limits.quota), ToMillis(limits.period));
}

bool Partition::Enter() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores_) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) return false;
  if (!group_) return true;
  for (const std::string& door : group_->doors()) {
    const int fd = open(door.c_str(), O_WRONLY | O_CLOEXEC);
    const bool entered = fd >= 0 && write(fd, "0", 1) == 1;
    if (fd >= 0) close(fd);
    if (!entered) return false;
  }
  return true;
}

}  // namespace hase::execution

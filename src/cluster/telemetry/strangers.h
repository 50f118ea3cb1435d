// Strangers: what threads that are not HASE's asked of the cores between two looks at /proc.
//
// Per thread the kernel counts the time it ran and the time it was ready but had to wait
// (/proc/PID/task/TID/schedstat); their sum is how much of the interval it was runnable, which is
// what a newcomer on its core competes with. Where it may run and with whom it shares its weight
// comes from Cpus_allowed_list, the cpu control group and the autogroup: the fair scheduler divides
// a core between groups first, then between the threads of each.
//
// Processor time that no living thread accounts for (processes that began and ended in between, a
// hypervisor's steal) is a stranger of its own, bound to its core; what our own children that ended
// took is taken out first.
//
// Cost: a few files per thread and poll, about 40 us a process. Not seen: threads of other
// containers' process namespaces (their time shows as unaccounted), nice values, realtime classes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cluster/telemetry/snapshot.h"

namespace hase::cluster::telemetry {

class StrangerScan {
 public:
  // `root`: before /proc. Threads of `own` and of its descendants are HASE's; 0 = this process.
  explicit StrangerScan(std::filesystem::path root = "/", pid_t own = 0);

  // Strangers that were runnable for at least a hundredth of the time since the call before; none
  // at the first call. `core_busy`: busy time of each core in the same interval, seconds.
  std::vector<Stranger> Poll(double interval_s, const std::map<int, double>& core_busy);

 private:
  struct Times {
    double run = 0, wait = 0;  // seconds since the thread began
    bool child = false;        // of a process that we may reap
  };
  // Processor time since the last call of own processes that are no more, seconds.
  double OwnEnded(const std::map<pid_t, Times>& now);
  std::map<pid_t, pid_t> Processes() const;  // their parents
  bool IsOwn(pid_t pid, const std::map<pid_t, pid_t>& parents) const;
  std::string GroupOf(pid_t pid) const;

  std::filesystem::path root_;
  pid_t own_;
  std::map<pid_t, Times> before_;  // by thread
  double reaped_ = 0;              // processor time of own children that ended, seconds
  bool first_ = true;
};

}  // namespace hase::cluster::telemetry

// Control groups as Linux offers them here: where the controllers are mounted (v1: one tree each,
// v2: one tree for all), which of them we may write, and a group of ours in them.
//
// Groups are named hase-<pid>-<start time of that pid>-<n>: whoever finds one can tell whether its
// maker still lives, so leftovers of a killed run are swept by the next. Nothing else is touched.
// Source: kernel documentation, admin-guide/cgroup-v1 and cgroup-v2.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hase::execution {

struct CgroupTrees {
  int version = 0;  // 0 = no usable cpu controller
  std::filesystem::path cpu = {},
                        memory = {};  // our own place in them; memory empty = not available
  std::string why_not = {};           // one line where something is missing
};

// From the texts of /proc/self/mounts and /proc/self/cgroup. `root` is put before every path (tests
// lay out a tree of files). v2 counts only where `cpu` is among its controllers.
CgroupTrees FindCgroups(std::string_view mounts, std::string_view own,
                        const std::filesystem::path& root = "");
// The same for this process, tried by making and removing a group.
const CgroupTrees& MachineCgroups();

struct CgroupLimits {
  Nanos quota = {};  // per period; 0 = no limit
  Nanos period = Nanos(5'000'000);
  Bytes memory = {};  // 0 = no limit
};

// One group, removed (with whatever still runs in it) by the destructor.
class Cgroup {
 public:
  // Below `parent` where given (which must outlive it), else in our own place of the trees.
  static Result<Cgroup> Make(const CgroupTrees& trees, const CgroupLimits& limits,
                             const Cgroup* parent = nullptr);
  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup();

  // Files into which a process writes "0" to enter: NUL-terminated paths, safe after fork.
  const std::vector<std::string>& doors() const { return doors_; }
  int64_t oom_kills() const;
  bool limits_memory() const { return !memory_.empty(); }

 private:
  Cgroup() = default;
  void Remove();
  int version_ = 0;
  std::filesystem::path cpu_, memory_;
  std::vector<std::string> doors_;
};

// Removes groups of HASE processes that no longer live; returns how many.
int SweepCgroups(const CgroupTrees& trees);

}  // namespace hase::execution

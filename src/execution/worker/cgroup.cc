// Control groups: detection, making, removing. Memory's v1 files are bytes, the CPU's microseconds.
#include "execution/worker/cgroup.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace hase::execution {
namespace {
namespace fs = std::filesystem;

bool Write(const fs::path& file, std::string_view text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

std::string Slurp(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool HasWord(std::string_view list, std::string_view word, char separator) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(separator), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Our path inside a hierarchy: the line "id:controllers:path"; v2's controllers are empty.
std::string OwnPath(std::string_view own, std::string_view controller) {
  std::istringstream lines{std::string(own)};
  for (std::string line; std::getline(lines, line);) {
    const size_t a = line.find(':');
    const size_t b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos) continue;
    const auto names = std::string_view(line).substr(a + 1, b - a - 1);
    const bool mine = controller.empty() ? names.empty() : HasWord(names, controller, ',');
    if (mine) return line.substr(b + 1);
  }
  return "/";
}

// Field 22 of /proc/PID/stat; the name before it may hold anything, but ends at the last ')'.
std::string StartTime(pid_t pid) {
  const std::string stat = Slurp(fmt::format("/proc/{}/stat", pid));
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return "";
  std::istringstream fields(stat.substr(end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  return field;
}

// Removes a group and those below it; whatever still runs inside is ours and is killed.
void RemoveGroup(const fs::path& group) {
  std::error_code error;
  if (group.empty() || !fs::exists(group, error)) return;
  std::vector<fs::path> inner;
  for (const auto& entry : fs::directory_iterator(group, error))
    if (entry.is_directory(error)) inner.push_back(entry.path());
  for (const auto& path : inner) RemoveGroup(path);
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (rmdir(group.c_str()) == 0 || errno != EBUSY) return;
    std::istringstream pids(Slurp(group / "cgroup.procs"));
    for (pid_t pid; pids >> pid;)
      if (pid != getpid()) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string NewName() {
  static std::atomic<int> count = 0;
  static const std::string start = StartTime(getpid());
  return fmt::format("hase-{}-{}-{}", getpid(), start, count++);
}

bool MakerLives(const std::string& name) {
  int pid = 0;
  unsigned long long start = 0;
  if (std::sscanf(name.c_str(), "hase-%d-%llu-", &pid, &start) != 2) return true;  // not ours
  return StartTime(pid) == std::to_string(start);
}

CgroupTrees TryOut(CgroupTrees trees) {
  if (trees.version == 0) return trees;
  SweepCgroups(trees);
  auto group = Cgroup::Make(trees, {.quota = FromMillis(2.5)});
  if (!group) return {.why_not = group.error().message};
  if (!trees.memory.empty() && !Cgroup::Make(trees, {.memory = GiB(1)})) trees.memory.clear();
  return trees;
}

}  // namespace

CgroupTrees FindCgroups(std::string_view mounts, std::string_view own, const fs::path& root) {
  CgroupTrees v1, v2;
  // A container may show a path that is not mounted here; then its root is our place.
  const auto place = [&](const std::string& mount, std::string_view controller) {
    const fs::path top = fs::path(root.string() + mount);
    const fs::path mine = fs::path(top.string() + OwnPath(own, controller));
    std::error_code error;
    return fs::exists(mine / "cgroup.procs", error) ? mine.lexically_normal() : top;
  };
  std::istringstream lines{std::string(mounts)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string source, mount, type, options;
    if (!(fields >> source >> mount >> type >> options)) continue;
    if (type == "cgroup" && HasWord(options, "cpu", ',')) {
      v1.version = 1;
      v1.cpu = place(mount, "cpu");
    } else if (type == "cgroup" && HasWord(options, "memory", ',')) {
      v1.memory = place(mount, "memory");
    } else if (type == "cgroup2") {
      const fs::path mine = place(mount, "");
      std::string controllers = Slurp(mine / "cgroup.controllers");
      while (!controllers.empty() && controllers.back() == '\n') controllers.pop_back();
      if (!HasWord(controllers, "cpu", ' ')) continue;  // an empty tree beside v1
      v2 = {.version = 2, .cpu = mine, .memory = {}, .why_not = {}};
      if (HasWord(controllers, "memory", ' ')) v2.memory = mine;
    }
  }
  if (v2.version == 2) return v2;
  if (v1.version == 1) return v1;
  return {.why_not = "no control group tree with a cpu controller is mounted"};
}

const CgroupTrees& MachineCgroups() {
  static const CgroupTrees trees =
      TryOut(FindCgroups(Slurp("/proc/self/mounts"), Slurp("/proc/self/cgroup")));
  return trees;
}

Result<Cgroup> Cgroup::Make(const CgroupTrees& trees, const CgroupLimits& limits,
                            const Cgroup* parent) {
  if (trees.version == 0) return Unavailable(trees.why_not);
  Cgroup group;
  group.version_ = trees.version;
  const std::string name = NewName();
  const auto make = [&](const fs::path& above, fs::path& mine) -> Status {
    if (trees.version == 2) {
      Write(above / "cgroup.subtree_control", "+cpu");
      if (!trees.memory.empty()) Write(above / "cgroup.subtree_control", "+memory");
    }
    std::error_code error;
    if (!fs::create_directory(above / name, error))
      return Unavailable(fmt::format("cannot make a control group in {}: {}", above.string(),
                                     error ? error.message() : "it exists"));
    mine = above / name;
    group.doors_.push_back((mine / "cgroup.procs").string());
    return {};
  };
  HASE_RETURN_IF_ERROR(make(parent ? parent->cpu_ : trees.cpu, group.cpu_));
  const auto set = [&](const fs::path& file, const std::string& value) -> Status {
    if (Write(file, value)) return {};
    return Unavailable(fmt::format("cannot write {} to {}", value, file.string()));
  };
  const int64_t quota = limits.quota.value() / 1000, period = limits.period.value() / 1000;
  if (quota > 0 && trees.version == 1) {
    HASE_RETURN_IF_ERROR(set(group.cpu_ / "cpu.cfs_period_us", std::to_string(period)));
    HASE_RETURN_IF_ERROR(set(group.cpu_ / "cpu.cfs_quota_us", std::to_string(quota)));
  } else if (quota > 0) {
    HASE_RETURN_IF_ERROR(set(group.cpu_ / "cpu.max", fmt::format("{} {}", quota, period)));
  }
  if (limits.memory > Bytes(0)) {
    if (trees.memory.empty()) return Unavailable("no memory controller is available");
    if (trees.version == 2) {
      group.memory_ = group.cpu_;
    } else {
      const bool nested = parent && !parent->memory_.empty();
      HASE_RETURN_IF_ERROR(make(nested ? parent->memory_ : trees.memory, group.memory_));
    }
    HASE_RETURN_IF_ERROR(
        set(group.memory_ / (trees.version == 1 ? "memory.limit_in_bytes" : "memory.max"),
            std::to_string(limits.memory.value())));
  }
  return group;
}

Cgroup::Cgroup(Cgroup&& other) noexcept
    : version_(other.version_),
      cpu_(std::exchange(other.cpu_, {})),
      memory_(std::exchange(other.memory_, {})),
      doors_(std::exchange(other.doors_, {})) {}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  if (this != &other) {
    Remove();
    version_ = other.version_;
    cpu_ = std::exchange(other.cpu_, {});
    memory_ = std::exchange(other.memory_, {});
    doors_ = std::exchange(other.doors_, {});
  }
  return *this;
}

Cgroup::~Cgroup() { Remove(); }

void Cgroup::Remove() {
  RemoveGroup(memory_);
  RemoveGroup(cpu_);
}

int64_t Cgroup::oom_kills() const {
  if (memory_.empty()) return 0;
  std::istringstream text(
      Slurp(memory_ / (version_ == 1 ? "memory.oom_control" : "memory.events")));
  std::string key;
  for (int64_t value; text >> key >> value;)
    if (key == "oom_kill") return value;
  return 0;
}

int SweepCgroups(const CgroupTrees& trees) {
  int swept = 0;
  for (const fs::path& tree : {trees.cpu, trees.memory}) {
    if (tree.empty()) continue;
    std::error_code error;
    std::vector<fs::path> dead;
    for (const auto& entry : fs::directory_iterator(tree, error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("hase-") && !MakerLives(name)) dead.push_back(entry.path());
    }
    for (const auto& path : dead) {
      RemoveGroup(path);
      ++swept;
    }
  }
  return swept;
}

}  // namespace hase::execution

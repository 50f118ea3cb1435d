#include "cluster/telemetry/strangers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "cluster/detect.h"

namespace hase::cluster::telemetry {
namespace {
namespace fs = std::filesystem;

constexpr double kLeast = 0.01;      // of the interval: threads below are not worth a line
constexpr double kLeastRest = 0.03;  // unaccounted time of a core: /proc/stat counts in ticks
constexpr std::string_view kUnknown = "unaccounted";

std::optional<pid_t> NumberOf(const fs::path& path) {
  const std::string name = path.filename().string();
  pid_t id = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (code != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id;
}

std::vector<pid_t> NumberedFolders(const fs::path& folder) {
  std::vector<pid_t> ids;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (const auto id = NumberOf(it->path())) ids.push_back(*id);
  }
  std::ranges::sort(ids);
  return ids;
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Stat {
  std::string name;
  pid_t parent = 0;
  int core = -1;  // last ran on
};
// "17 (a name) S 1 …": the name may hold anything, so the fields are counted from its last ')'.
std::optional<Stat> ReadStat(const fs::path& path) {
  const std::string line = FirstLine(path);
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Stat stat;
  stat.name = line.substr(open + 1, close - open - 1);
  std::istringstream fields(line.substr(close + 1));
  std::string field;
  for (int i = 3; fields >> field; ++i) {
    if (i == 4) stat.parent = static_cast<pid_t>(std::atoi(field.c_str()));
    if (i == 39) stat.core = std::atoi(field.c_str());
  }
  return stat;
}

std::vector<int> AllowedCores(const fs::path& status) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return CoreList(std::string_view(line).substr(kKey.size()));
  }
  return {};
}

}  // namespace

StrangerScan::StrangerScan(fs::path root, pid_t own)
    : root_(std::move(root)), own_(own > 0 ? own : getpid()) {}

std::string StrangerScan::GroupOf(pid_t pid) const {
  const fs::path folder = root_ / "proc" / std::to_string(pid);
  std::ifstream cgroups(folder / "cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    // "4:cpu,cpuacct:/path" (v1) or "0::/path" (v2).
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (path.size() > 1) return "cgroup:" + path.substr(0, path.find('/', 1));
    if (controllers != ",,") break;
  }
  // "/autogroup-17 nice 0"; number 0, or none, is the root group: each thread on its own.
  const std::string autogroup = FirstLine(folder / "autogroup");
  const std::string name = autogroup.substr(0, autogroup.find(' '));
  return name.size() < 2 || name == "/autogroup-0" ? "" : name.substr(1);
}

std::map<pid_t, pid_t> StrangerScan::Processes() const {
  std::map<pid_t, pid_t> parents;
  for (const pid_t pid : NumberedFolders(root_ / "proc")) {
    const auto stat = ReadStat(root_ / "proc" / std::to_string(pid) / "stat");
    if (stat) parents[pid] = stat->parent;
  }
  return parents;
}

bool StrangerScan::IsOwn(pid_t pid, const std::map<pid_t, pid_t>& parents) const {
  for (int depth = 0; pid > 0 && depth < 64; ++depth) {
    if (pid == own_) return true;
    const auto it = parents.find(pid);
    if (it == parents.end()) return false;
    pid = it->second;
  }
  return false;
}

double StrangerScan::OwnEnded(const std::map<pid_t, Times>& now) {
  if (own_ != getpid()) return 0;
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const double reaped = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  double ended = reaped - std::exchange(reaped_, reaped);
  for (const auto& [tid, times] : before_) {
    if (times.child && !now.contains(tid)) ended -= times.run;
  }
  return std::max(0.0, ended);
}

std::vector<Stranger> StrangerScan::Poll(double interval_s,
                                         const std::map<int, double>& core_busy) {
  const auto parents = Processes();
  std::map<pid_t, Times> now;
  std::map<int, double> rest = core_busy;
  std::vector<Stranger> strangers;
  for (const auto& [pid, parent] : parents) {
    const bool own = IsOwn(pid, parents);
    const fs::path tasks = root_ / "proc" / std::to_string(pid) / "task";
    for (const pid_t tid : NumberedFolders(tasks)) {
      const fs::path task = tasks / std::to_string(tid);
      long long run = 0, wait = 0;
      if (std::sscanf(FirstLine(task / "schedstat").c_str(), "%lld %lld", &run, &wait) != 2)
        continue;
      const Times times{static_cast<double>(run) * 1e-9, static_cast<double>(wait) * 1e-9,
                        own && pid != own_};
      now[tid] = times;
      const auto it = before_.find(tid);
      const Times was = it == before_.end() ? Times{} : it->second;
      if (first_ || interval_s <= 0) continue;
      const double ran = times.run - was.run, waited = times.wait - was.wait;
      if (ran + waited < 1e-3 * interval_s) continue;
      const auto stat = ReadStat(task / "stat");
      if (!stat) continue;  // ended just now
      if (const auto core = rest.find(stat->core); core != rest.end()) core->second -= ran;
      if (own || ran + waited < kLeast * interval_s) continue;
      Stranger stranger;
      stranger.name = stat->name;
      stranger.group = GroupOf(pid);
      stranger.cores = AllowedCores(task / "status");
      stranger.core = stat->core;
      stranger.run = std::clamp(ran / interval_s, 0.0, 1.0);
      stranger.wait = std::clamp(waited / interval_s, 0.0, 1.0 - stranger.run);
      strangers.push_back(std::move(stranger));
    }
  }
  const double own_ended = OwnEnded(now);
  before_ = std::move(now);
  if (std::exchange(first_, false) || interval_s <= 0) return {};
  // A thread that moved was charged to its last core: what one core has too much, another lacks.
  double over = 0, under = -own_ended;
  for (const auto& [core, busy] : rest) (busy > 0 ? over : under) += busy;
  const double keep = over > 0 ? std::max(0.0, over + under) / over : 0;
  for (const auto& [core, busy] : rest) {
    const double part = std::clamp(busy * keep / interval_s, 0.0, 1.0);
    if (part < kLeastRest) continue;
    Stranger stranger;
    stranger.name = std::string(kUnknown);
    stranger.cores = {core};
    stranger.core = core;
    stranger.run = part;
    strangers.push_back(std::move(stranger));
  }
  return strangers;
}

}  // namespace hase::cluster::telemetry

#include "cluster/telemetry/cpu.h"

#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "cluster/telemetry/core_probe.h"
#include "cluster/telemetry/strangers.h"

namespace hase::cluster::telemetry {
namespace {

struct CoreTimes {
  double busy = 0, all = 0;  // ticks
};

// A counter of last-level cache misses of one core, all processes. Absent where the kernel or the
// machine does not give it.
class MissCounter {
 public:
  explicit MissCounter(int core) {
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = PERF_COUNT_HW_CACHE_MISSES;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, core, -1, 0));
  }
  MissCounter(MissCounter&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MissCounter& operator=(MissCounter&&) = delete;
  ~MissCounter() {
    if (fd_ >= 0) close(fd_);
  }
  std::optional<uint64_t> Read() const {
    uint64_t count = 0;
    if (fd_ < 0 || read(fd_, &count, sizeof(count)) != sizeof(count)) return std::nullopt;
    return count;
  }

 private:
  int fd_ = -1;
};

// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice" of every core. Guest time
// is already within user.
Result<std::map<int, CoreTimes>> ReadStat(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::map<int, CoreTimes> cores;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
    int core = 0;
    const auto [end, code] = std::from_chars(line.data() + 3, line.data() + line.size(), core);
    std::istringstream fields(line.substr(static_cast<size_t>(end - line.data())));
    double t[8] = {};
    int n = 0;
    while (n < 8 && fields >> t[n]) ++n;
    if (code != std::errc() || n < 5) {
      return Unavailable(fmt::format("{}:{}: not a line of core times", path.string(), number));
    }
    CoreTimes& times = cores[core];
    for (int i = 0; i < n; ++i) times.all += t[i];
    times.busy = times.all - t[3] - t[4];
  }
  if (cores.empty()) return Unavailable(fmt::format("{}: no core times", path.string()));
  return cores;
}

double MemInfo(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    return std::atof(line.c_str() + key.size()) / 1024;
  }
  return 0;
}

class Cpu : public Source {
 public:
  Cpu(CpuOptions options, std::function<double()> now)
      : options_(std::move(options)), now_(std::move(now)), scan_(options_.root, options_.own) {}

  Result<Snapshot> Poll() override {
    const double now = now_();
    HASE_ASSIGN_OR_RETURN(const auto cores, ReadStat(options_.root / "proc/stat"));
    const double total = MemInfo(options_.root / "proc/meminfo", "MemTotal:");
    const double free = MemInfo(options_.root / "proc/meminfo", "MemAvailable:");
    Snapshot snapshot;
    snapshot.source = "cpu";
    snapshot.interval_s = last_ ? now - *last_ : 0;
    const std::optional<double> traffic = Traffic(cores, snapshot.interval_s);
    std::map<int, double> busy_s;
    const double tick = 1 / static_cast<double>(std::max(sysconf(_SC_CLK_TCK), 1L));
    for (const auto& [core, times] : cores) {
      DeviceReadings device;
      device.device = fmt::format("cpu{}", core);
      device.index = core;
      const auto before = before_.find(core);
      if (before != before_.end() && times.all > before->second.all) {
        const double part = (times.busy - before->second.busy) / (times.all - before->second.all);
        device.at(Counter::kSmActive) = {std::max(0.0, part), 0, Validity::kOk};
        busy_s[core] = (times.busy - before->second.busy) * tick;
      }
      if (traffic) device.at(Counter::kDramActive) = {*traffic, 0, Validity::kOk};
      if (total > 0) {
        device.at(Counter::kMemoryUsed) = {total - free, 0, Validity::kOk};
        device.at(Counter::kMemoryFree) = {free, 0, Validity::kOk};
      }
      snapshot.devices.push_back(std::move(device));
    }
    snapshot.strangers = scan_.Poll(snapshot.interval_s, busy_s);
    before_ = cores;
    last_ = now;
    Probe(snapshot);
    for (auto& device : snapshot.devices) Judge(device, 1e9);
    return snapshot;
  }

 private:
  void Probe(Snapshot& snapshot) {
    for (auto& device : snapshot.devices) {
      if (std::ranges::find(options_.probe_cores, device.index) == options_.probe_cores.end()) {
        continue;
      }
      if (!probe_) probe_ = std::make_unique<CoreProbe>();
      const auto reading = probe_->Measure(device.index);
      if (!reading) {
        snapshot.notes.push_back(reading.error().message);
        continue;
      }
      device.at(Counter::kProbeCompute) = {reading->compute_ns, 0, Validity::kOk};
      device.at(Counter::kProbeStream) = {reading->stream_ns, 0, Validity::kOk};
      device.at(Counter::kProbeLatency) = {reading->latency_ns, 0, Validity::kOk};
    }
  }

  std::optional<double> Traffic(const std::map<int, CoreTimes>& cores, double interval_s) {
    if (options_.bandwidth_gb_s <= 0 || options_.root != "/") return std::nullopt;
    if (counters_.empty()) {
      for (const auto& [core, times] : cores) counters_.emplace_back(core);
    }
    uint64_t misses = 0;
    for (const auto& counter : counters_) {
      const auto count = counter.Read();
      if (!count) return std::nullopt;
      misses += *count;
    }
    const uint64_t fresh = misses - misses_;
    misses_ = misses;
    if (interval_s <= 0) return std::nullopt;
    return 64 * static_cast<double>(fresh) / interval_s / (options_.bandwidth_gb_s * 1e9);
  }

  CpuOptions options_;
  std::function<double()> now_;
  std::map<int, CoreTimes> before_;
  std::optional<double> last_;
  StrangerScan scan_;
  std::unique_ptr<CoreProbe> probe_;
  std::vector<MissCounter> counters_;
  uint64_t misses_ = 0;
};

}  // namespace

std::unique_ptr<Source> MakeCpu(const CpuOptions& options, std::function<double()> now) {
  return std::make_unique<Cpu>(options, std::move(now));
}

std::unique_ptr<Source> MakeCpu(const CpuOptions& options) {
  return MakeCpu(options, [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  });
}

}  // namespace hase::cluster::telemetry

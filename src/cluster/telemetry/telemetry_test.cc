// Pages in tests/telemetry against the readings expected of them, and the sources' own behaviour.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cluster/detect.h"
#include "cluster/telemetry/core_probe.h"
#include "cluster/telemetry/cpu.h"
#include "cluster/telemetry/dcgm_exporter.h"
#include "cluster/telemetry/sources.h"
#include "cluster/telemetry/strangers.h"

namespace hase::cluster::telemetry {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

void ExpectDevice(const DeviceReadings& device, const json& expected) {
  SCOPED_TRACE(device.device);
  EXPECT_EQ(device.index, expected.value("index", device.index));
  EXPECT_EQ(device.model, expected.value("model", device.model));
  EXPECT_EQ(device.mig_profile, expected.value("mig_profile", device.mig_profile));
  EXPECT_EQ(device.tenants, expected.value("tenants", std::vector<std::string>()));
  size_t known = 0;
  for (size_t i = 0; i < kCounters; ++i) {
    const std::string name(ToString(static_cast<Counter>(i)));
    if (!expected["counters"].contains(name)) continue;
    SCOPED_TRACE(name);
    ++known;
    const json& reading = expected["counters"][name];
    EXPECT_EQ(ToString(device.readings[i].validity), reading.at("validity").get<std::string>());
    if (reading.contains("value")) {
      EXPECT_NEAR(device.readings[i].value, reading["value"].get<double>(), 1e-9);
    }
    if (reading.contains("age_s")) {
      EXPECT_NEAR(device.readings[i].age_s, reading["age_s"].get<double>(), 1e-6);
    }
  }
  EXPECT_EQ(known, expected["counters"].size()) << "the expectation names an unknown counter";
}

void ExpectPage(const fs::path& path) {
  SCOPED_TRACE(path.string());
  const auto text = ReadFile(path);
  ASSERT_TRUE(text);
  auto beside = path;
  std::ifstream file(beside.replace_extension(".expect.json"));
  ASSERT_TRUE(file) << "no expectation beside it";
  const json expected = json::parse(file);
  const auto page = ParsePrometheus(path.filename().string(), *text);
  if (expected.contains("error")) {
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().message, expected["error"].get<std::string>());
    return;
  }
  ASSERT_TRUE(page) << page.error().message;
  const Snapshot snapshot =
      ReadDcgmPage(*page, expected.at("now_s"), expected.at("age_s"), expected.at("stale_after_s"));
  EXPECT_EQ(snapshot.notes, expected.value("notes", std::vector<std::string>()));
  ASSERT_EQ(snapshot.devices.size(), expected["devices"].size());
  for (const auto& device : snapshot.devices) {
    ASSERT_TRUE(expected["devices"].contains(device.device)) << device.device;
    ExpectDevice(device, expected["devices"][device.device]);
  }
}

TEST(TelemetryPages, ReadAsExpected) {
  int pages = 0;
  for (const auto& entry : fs::directory_iterator("tests/telemetry")) {
    if (entry.path().extension() != ".prom") continue;
    ExpectPage(entry.path());
    ++pages;
  }
  EXPECT_GE(pages, 10);
}

TEST(DcgmExporter, AgesBySeeingThePageChange) {
  double now = 1000;
  std::string page = "DCGM_FI_PROF_SM_ACTIVE{gpu=\"0\",UUID=\"G\"} 0.5\n";
  DcgmOptions options;
  const auto source =
      MakeDcgmExporter(options, [&]() -> Result<std::string> { return page; }, [&] { return now; });
  const auto age = [&] { return source->Poll()->devices[0].at(Counter::kSmActive); };
  EXPECT_EQ(age().validity, Validity::kStale);  // as old as the exporter's interval may be
  now = 1002;
  EXPECT_EQ(age().age_s, 32);
  now = 1003;
  page = "DCGM_FI_PROF_SM_ACTIVE{gpu=\"0\",UUID=\"G\"} 0.6\n";
  const Reading fresh = age();  // changed since the last look, one second ago
  EXPECT_EQ(fresh.age_s, 1);
  EXPECT_EQ(fresh.validity, Validity::kOk);
  now = 1009;
  EXPECT_EQ(age().validity, Validity::kStale);
}

TEST(DcgmExporter, AnswersThatAreNoPageAreErrors) {
  std::string page = "hello_total 3\n";
  const auto source =
      MakeDcgmExporter({}, [&]() -> Result<std::string> { return page; }, [] { return 0.0; });
  EXPECT_NE(source->Poll().error().message.find("no DCGM counters"), std::string::npos);
  page = "<html>\n";
  EXPECT_FALSE(source->Poll());
  const auto nobody = HttpGet("http://127.0.0.1:1/metrics", 0.5);
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("http://127.0.0.1:1/metrics"), std::string::npos);
  EXPECT_FALSE(HttpGet("ftp://x", 0.5));
}

DeviceReadings Card(double sm, double dram) {
  DeviceReadings device;
  device.at(Counter::kSmActive) = {sm, 1, Validity::kOk};
  device.at(Counter::kDramActive) = {dram, 2, Validity::kOk};
  return device;
}

TEST(ForeignLoad, IsWhatIsLeftWithoutOurOwn) {
  Load own;
  own.sm = 0.5;
  own.dram = 0.4;
  const Load load = ForeignLoad(Card(0.8, 0.3), own);
  EXPECT_TRUE(load.valid);
  EXPECT_FALSE(load.coarse);
  EXPECT_NEAR(load.sm, 0.3, 1e-12);
  EXPECT_EQ(load.dram, 0);  // ours alone explains it: never negative
  EXPECT_EQ(load.age_s, 2);
}

TEST(ForeignLoad, FallsBackToBusyTimeThenToNothing) {
  DeviceReadings device = Card(0, 0);
  device.at(Counter::kGpuBusy) = {0.97, 0, Validity::kOk};
  Judge(device, 5);
  EXPECT_EQ(device.at(Counter::kSmActive).validity, Validity::kZeroed);
  const Load busy = ForeignLoad(device, {});
  EXPECT_TRUE(busy.valid);
  EXPECT_TRUE(busy.coarse);
  EXPECT_NEAR(busy.sm, 0.97, 1e-12);
  device.at(Counter::kGpuBusy).validity = Validity::kMissing;
  EXPECT_FALSE(ForeignLoad(device, {}).valid);
}

TEST(ForeignLoad, CountsPcieWhereTheLinkIsKnown) {
  DeviceReadings device = Card(0.1, 0.1);
  device.at(Counter::kPcieRx) = {8000, 0, Validity::kOk};
  EXPECT_NEAR(ForeignLoad(device, {}, 16000).pcie, 0.5, 1e-12);
  EXPECT_EQ(ForeignLoad(device, {}).pcie, 0);
}

class FakeProc {
 public:
  FakeProc() : root_(fs::temp_directory_path() / ("hase_proc_" + std::to_string(getpid()))) {
    fs::create_directories(root_ / "proc");
    std::ofstream(root_ / "proc/meminfo") << "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n";
  }
  ~FakeProc() { fs::remove_all(root_); }
  void Stat(const std::string& text) const { std::ofstream(root_ / "proc/stat") << text; }
  const fs::path& path() const { return root_; }

 private:
  fs::path root_;
};

TEST(Cpu, BusyTimeOfEachCoreBetweenPolls) {
  const FakeProc proc;
  double now = 10;
  CpuOptions options;
  options.root = proc.path();
  const auto source = MakeCpu(options, [&] { return now; });
  proc.Stat("cpu 1 2 3 4 5\ncpu0 100 0 100 800 0 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\n");
  const auto first = source->Poll();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->devices[0].at(Counter::kSmActive).validity, Validity::kMissing);
  EXPECT_EQ(first->devices[0].at(Counter::kMemoryUsed).value, 1024);
  EXPECT_FALSE(ForeignCpuLoad(*first, {0}, 0).valid);
  now = 12;
  proc.Stat("cpu 1 2 3 4 5\ncpu0 200 0 140 840 20 0 0 0 0 0\ncpu1 0 0 0 1200 0 0 0 0 0 0\n");
  const auto second = source->Poll();
  ASSERT_TRUE(second);
  EXPECT_NEAR(second->devices[0].at(Counter::kSmActive).value, 0.7, 1e-12);
  EXPECT_EQ(second->devices[1].at(Counter::kSmActive).value, 0);
  // 2 s at 70 % = 1.4 s busy; HASE's own processes took 0.8 s of it.
  EXPECT_NEAR(ForeignCpuLoad(*second, {0}, 0.8).sm, 0.3, 1e-12);
  EXPECT_NEAR(ForeignCpuLoad(*second, {0, 1}, 0.8).sm, 0.15, 1e-12);
  EXPECT_EQ(ForeignCpuLoad(*second, {0}, 5).sm, 0);
  EXPECT_FALSE(ForeignCpuLoad(*second, {9}, 0).valid);
  proc.Stat("cpu0 x\n");
  EXPECT_NE(source->Poll().error().message.find("proc/stat:1"), std::string::npos);
}

// A process tree laid out as files: what is HASE's own does not count, what has no living thread
// does, and groups are told apart.
class FakeProcesses : public FakeProc {
 public:
  struct Thread {
    int pid, tid, parent;
    std::string cores, cgroup, autogroup;
    long long run_ms, wait_ms;
    int core;
  };
  void Write(const std::vector<Thread>& threads) const {
    for (const auto& t : threads) {
      const fs::path process = path() / "proc" / std::to_string(t.pid);
      const fs::path task = process / "task" / std::to_string(t.tid);
      fs::create_directories(task);
      std::string rest;
      for (int field = 5; field < 39; ++field) rest += " 0";
      const std::string stat = std::to_string(t.pid) + " (a (odd) name) S " +
                               std::to_string(t.parent) + rest + " " + std::to_string(t.core) +
                               " 0\n";
      std::ofstream(process / "stat") << stat;
      std::ofstream(task / "stat") << stat;
      std::ofstream(process / "cgroup") << "9:memory:/x\n4:cpu,cpuacct:" << t.cgroup << "\n";
      std::ofstream(process / "autogroup") << t.autogroup << "\n";
      std::ofstream(task / "schedstat")
          << t.run_ms * 1000000 << " " << t.wait_ms * 1000000 << " 7\n";
      std::ofstream(task / "status") << "Name:\ta\nCpus_allowed_list:\t" << t.cores << "\n";
    }
  }
};

TEST(Strangers, AreThreadsThatAreNotOursByGroupAndCore) {
  const FakeProcesses proc;
  using Thread = FakeProcesses::Thread;
  const auto at = [](long long ours, long long a, long long b, long long waited) {
    return std::vector<Thread>{{10, 10, 1, "0-1", "/", "/autogroup-3 nice 0", ours, 0, 0},
                               {11, 11, 10, "0", "/hase-10", "", ours, 0, 0},  // our child
                               {20, 20, 1, "0", "/", "/autogroup-7 nice 0", a, waited, 0},
                               {20, 21, 1, "0-1", "/", "/autogroup-7 nice 0", b, 0, 1},
                               {30, 30, 2, "1", "/docker/abc", "/autogroup-0 nice 0", b, 0, 1},
                               {40, 40, 2, "1", "/", "/autogroup-0 nice 0", 2, 0, 1}};
  };
  StrangerScan scan(proc.path(), 10);
  proc.Write(at(0, 0, 0, 0));
  EXPECT_TRUE(scan.Poll(0, {}).empty());
  proc.Write(at(200, 500, 250, 400));
  // Core 1 was busy 0.9 s, of which threads account for 0.502 s.
  const auto found = scan.Poll(1, {{0, 0.9}, {1, 0.9}});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].name, "a (odd) name");
  EXPECT_EQ(found[0].group, "autogroup-7");
  EXPECT_EQ(found[0].cores, std::vector{0});
  EXPECT_NEAR(found[0].run, 0.5, 1e-9);
  EXPECT_NEAR(found[0].wait, 0.4, 1e-9);
  EXPECT_EQ(found[1].cores, (std::vector{0, 1}));
  EXPECT_EQ(found[2].group, "cgroup:/docker");
  EXPECT_EQ(found[3].name, "unaccounted");
  EXPECT_EQ(found[3].cores, std::vector{1});
  EXPECT_NEAR(found[3].run, 0.398, 0.01);
  EXPECT_EQ(hase::cluster::CoreList("0-2,5"), (std::vector{0, 1, 2, 5}));
  EXPECT_TRUE(hase::cluster::CoreList("x").empty());
}

// A worker of ours that ended between two looks is in no list of threads any more, but the core was
// busy with it.
TEST(Strangers, AreNotOurOwnChildrenThatEnded) {
  const FakeProcesses proc;
  fs::create_directories(proc.path() / "proc");
  StrangerScan scan(proc.path());
  EXPECT_TRUE(scan.Poll(0, {}).empty());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (std::clock() < 4 * CLOCKS_PER_SEC / 10) {
    }
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(scan.Poll(1, {{0, 0.4}}).empty());
  const auto found = scan.Poll(1, {{0, 0.4}});  // busy as much again, with nobody of ours
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].run, 0.4, 1e-9);
}

TEST(CoreProbe, TakesTimesThatAreTimes) {
  CoreProbe probe;
  const auto reading = probe.Measure(0);
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_GT(reading->compute_ns, 0.1);
  EXPECT_GT(reading->stream_ns, 1);  // a KiB in a nanosecond: no memory does
  EXPECT_GT(reading->latency_ns, 1);
  EXPECT_LT(reading->latency_ns, 20000);
  EXPECT_FALSE(probe.Measure(1000));
}

TEST(Cpu, SeesARealBusyLoop) {
  const auto source = MakeCpu(CpuOptions{});
  ASSERT_TRUE(source->Poll());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
  }
  const auto snapshot = source->Poll();
  ASSERT_TRUE(snapshot);
  double busy = 0;
  for (const auto& core : snapshot->devices) busy += core.at(Counter::kSmActive).value;
  EXPECT_GT(busy, 0.5);
}

TEST(Replay, GivesBackWhatWasRecorded) {
  Snapshot snapshot;
  snapshot.source = "cpu";
  snapshot.interval_s = 0.5;
  snapshot.notes = {"a note"};
  snapshot.devices = {Card(0.25, 0.5)};
  snapshot.devices[0].device = "GPU-1";
  snapshot.devices[0].tenants = {"ml/a"};
  snapshot.strangers = {{"x", "autogroup-3", {0, 1}, 1, 0.5, 0.25}};
  snapshot.devices[0].at(Counter::kPower) = {std::nan(""), 0, Validity::kNotANumber};
  const std::string line = ToJsonLine(snapshot);
  const auto again = ParseSnapshot("r", line);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(ToJsonLine(*again), line);
  const auto path = fs::temp_directory_path() / ("hase_replay_" + std::to_string(getpid()));
  std::ofstream(path) << line << "\n" << line << "\n";
  SourceOptions options;
  options.file = path.string();
  auto source = MakeSource("replay", options);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE((*source)->Poll());
  EXPECT_EQ((*source)->Poll()->devices[0].at(Counter::kSmActive).value, 0.25);
  EXPECT_FALSE((*source)->Poll());
  std::ofstream(path) << line
                      << "\n{\"devices\": [{\"device\": \"x\", \"readings\": {\"zeal\": {}}}]}\n";
  EXPECT_NE(MakeSource("replay", options).error().message.find(":2: unknown counter 'zeal'"),
            std::string::npos);
  fs::remove(path);
  EXPECT_FALSE(MakeSource("crystal ball", options));
}

TEST(NvmlSource, ReadsTheStandInDriver) {
  setenv("HASE_NVML", HASE_NVML_STAND_IN, 1);
  auto source = MakeSource("nvml", {});
  ASSERT_TRUE(source) << source.error().message;
  const auto snapshot = (*source)->Poll();
  unsetenv("HASE_NVML");
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  ASSERT_EQ(snapshot->devices.size(), 3u);
  const auto& t4 = snapshot->devices[0];
  EXPECT_NEAR(t4.at(Counter::kGpuBusy).value, 0.93, 1e-12);
  EXPECT_EQ(t4.at(Counter::kSmActive).validity, Validity::kMissing);
  EXPECT_EQ(t4.at(Counter::kMemoryFree).value, 10 * 1024);
  EXPECT_TRUE(ForeignLoad(t4, {}).coarse);
}

}  // namespace
}  // namespace hase::cluster::telemetry

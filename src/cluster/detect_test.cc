#include "cluster/detect.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cluster/nvml.h"

namespace hase::cluster {
namespace {
namespace fs = std::filesystem;

class FakeRoot {
 public:
  FakeRoot() : root_(fs::temp_directory_path() / ("hase_root_" + std::to_string(getpid()))) {
    Write("proc/cpuinfo",
          "processor\t: 0\nmodel name\t: Test CPU (R) 9\ncpu MHz\t\t: 2300.5\nflags\t\t: fpu avx2 "
          "avx512f\n");
    Write("proc/meminfo", "MemTotal:       16777216 kB\n");
    Write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2,5\n");
    Write("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    Write("sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n");
  }
  ~FakeRoot() { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  const fs::path& path() const { return root_; }

 private:
  fs::path root_;
};

TEST(DetectCpu, ReadsCoresClockCacheAndMemory) {
  const FakeRoot root;
  const auto cpu = DetectCpu(root.path());
  EXPECT_EQ(cpu.model, "Test CPU (R) 9");
  EXPECT_EQ(cpu.cores, (std::vector<int>{1, 2, 5}));
  EXPECT_EQ(cpu.base_mhz, 2300);
  EXPECT_TRUE(cpu.avx512);
  EXPECT_FALSE(cpu.vnni);
  EXPECT_EQ(cpu.memory, GiB(16));
  EXPECT_EQ(cpu.last_level_cache, MiB(32));
  EXPECT_EQ(cpu.cpu_limit, 0);
}

TEST(DetectCpu, TakesTheLeastLimitAlongTheV2Path) {
  const FakeRoot root;
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  root.Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  root.Write("sys/fs/cgroup/a/b/memory.max", "4294967296\n");
  const auto cpu = DetectCpu(root.path());
  EXPECT_DOUBLE_EQ(cpu.cpu_limit, 1.5);
  EXPECT_EQ(cpu.cpu_limit_source, "cgroup v2");
  EXPECT_EQ(cpu.memory, GiB(4));
}

TEST(DetectCpu, ReadsV1Limits) {
  const FakeRoot root;
  root.Write("proc/self/cgroup", "3:memory:/m\n2:cpu,cpuacct:/c\n0::/\n");
  root.Write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
  root.Write("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.Write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1073741824\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const auto cpu = DetectCpu(root.path());
  EXPECT_DOUBLE_EQ(cpu.cpu_limit, 0.5);
  EXPECT_EQ(cpu.memory, GiB(1));
}

TEST(DetectCpu, AnEmptyRootIsAllUnknown) {
  const auto cpu = DetectCpu("/nonexistent");
  EXPECT_EQ(cpu.model, "unknown CPU");
  EXPECT_EQ(cpu.cores.size(), 1u);
  EXPECT_EQ(cpu.memory.value(), 0);
}

TEST(LocalCluster, CutsCoresIntoThreeUnlikeDevices) {
  HostCpu cpu;
  cpu.cores = {0, 1};
  cpu.memory = GiB(8);
  const auto cluster = LocalCluster({}, cpu);
  ASSERT_EQ(cluster.devices.size(), 3u);
  EXPECT_EQ(cluster.devices[0].cpu_cores, (std::vector<int>{0}));
  EXPECT_EQ(cluster.devices[1].cpu_cores, (std::vector<int>{1}));
  EXPECT_EQ(cluster.devices[2].cpu_cores, (std::vector<int>{1}));
  EXPECT_EQ(cluster.types[0].name, "cpu-1c-q1");
  EXPECT_EQ(cluster.types[1].name, "cpu-1c-q0.6");
  EXPECT_EQ(cluster.types[2].name, "cpu-1c-q0.3");
  cpu.cores = {0};
  EXPECT_EQ(LocalCluster({}, cpu).devices.size(), 2u);
  cpu.cores = {0, 1, 2, 3, 4};
  EXPECT_EQ(LocalCluster({}, cpu).types[0].name, "cpu-3c-q1");
}

class StandInDriver : public testing::Test {
 protected:
  void SetUp() override { setenv("HASE_NVML", HASE_NVML_STAND_IN, 1); }
  void TearDown() override {
    unsetenv("HASE_NVML");
    unsetenv("STAND_IN_FAIL");
  }
};

TEST_F(StandInDriver, ListsCardsWithCountersAndMigInstances) {
  const auto nvml = Nvml::Open();
  ASSERT_TRUE(nvml) << nvml.error().message;
  EXPECT_EQ(nvml->DriverVersion(), "555.42");
  const auto cards = nvml->Cards();
  ASSERT_TRUE(cards) << cards.error().message;
  ASSERT_EQ(cards->size(), 3u);
  EXPECT_EQ((*cards)[0].name, "Tesla T4");
  EXPECT_EQ((*cards)[0].gpu_percent, 93);
  EXPECT_EQ((*cards)[0].memory_reserved, GiB(1));
  EXPECT_EQ((*cards)[0].power_w, 68.0);
  EXPECT_FALSE((*cards)[0].throttle_reasons);  // the stand-in lacks it, as old drivers do
  EXPECT_FALSE((*cards)[1].gpu_percent);       // not supported under MIG
  ASSERT_EQ((*cards)[1].migs.size(), 2u);
  EXPECT_EQ((*cards)[1].migs[0].profile, "3g.40gb");
}

TEST_F(StandInDriver, BecomesACluster) {
  const auto catalogue = Catalogue::Load();
  ASSERT_TRUE(catalogue);
  const auto gpus = DetectGpus(*catalogue);
  ASSERT_TRUE(gpus) << gpus.error().message;
  EXPECT_TRUE((*gpus)[0].in_catalogue);
  EXPECT_FALSE((*gpus)[2].in_catalogue);
  EXPECT_EQ((*gpus)[2].spec.memory, GiB(64));
  HostCpu cpu;
  cpu.cores = {0, 1};
  const auto cluster = LocalCluster(*gpus, cpu);
  ASSERT_EQ(cluster.devices.size(), 4u);  // T4, two MIG instances, the unknown card
  EXPECT_EQ(cluster.types[0].name, "T4");
  EXPECT_EQ(cluster.types[1].name, "A100-SXM4-80GB MIG 3g.40gb");
  EXPECT_EQ(cluster.types[2].spec.sm_count, 28);
}

TEST_F(StandInDriver, FailuresSayWhatToDo) {
  const auto catalogue = Catalogue::Load();
  setenv("STAND_IN_FAIL", "init", 1);
  EXPECT_NE(DetectGpus(*catalogue).error().message.find("Driver Not Loaded"), std::string::npos);
  setenv("STAND_IN_FAIL", "lost", 1);
  EXPECT_NE(DetectGpus(*catalogue).error().message.find("GPU 1: the driver answers 'GPU is lost'"),
            std::string::npos);
  setenv("HASE_NVML", "/nonexistent.so", 1);
  EXPECT_NE(DetectGpus(*catalogue).error().message.find("install the NVIDIA driver"),
            std::string::npos);
}

}  // namespace
}  // namespace hase::cluster

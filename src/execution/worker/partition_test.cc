// Partitions on this machine's own control groups where they are writable, and detection on trees
// laid out as files.
#include "execution/worker/partition.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hase::execution {
namespace {
namespace fs = std::filesystem;

double Seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Part of `wall_s` that a busy loop in the partition gets of the processor.
double PartOfTime(const Partition& partition, double wall_s) {
  int pipe_fd[2];
  if (pipe(pipe_fd) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    if (!partition.Enter()) _exit(1);
    const double start = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    while (Seconds(CLOCK_MONOTONIC) < start + wall_s) {
    }
    const double part = (Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / wall_s;
    if (write(pipe_fd[1], &part, sizeof part) != sizeof part) _exit(1);
    _exit(0);
  }
  close(pipe_fd[1]);
  double part = -1;
  if (read(pipe_fd[0], &part, sizeof part) != sizeof part) part = -1;
  close(pipe_fd[0]);
  waitpid(child, nullptr, 0);
  return part;
}

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("hase_cgroup_test_" + std::to_string(getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  fs::path root_;
};

TEST_F(Tree, TakesVersionOneBesideAnEmptyVersionTwo) {
  Put("cg/cpu/a/cgroup.procs", "");
  Put("cg/memory/b/cgroup.procs", "");
  Put("cg/unified/cgroup.procs", "");
  Put("cg/unified/cgroup.controllers", "\n");
  const auto trees = FindCgroups(
      "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\n"
      "cgroup2 /cg/unified cgroup2 rw 0 0\n",
      "4:memory:/b\n1:cpu,cpuacct:/a\n0::/\n", root_);
  EXPECT_EQ(trees.version, 1);
  EXPECT_EQ(trees.cpu, root_ / "cg/cpu/a");
  EXPECT_EQ(trees.memory, root_ / "cg/memory/b");
}

TEST_F(Tree, TakesVersionTwoOnlyWithACpuController) {
  Put("cg/user.slice/cgroup.procs", "");
  Put("cg/user.slice/cgroup.controllers", "cpu io memory pids\n");
  const std::string mounts = "cgroup2 /cg cgroup2 rw,nosuid 0 0\n";
  const auto trees = FindCgroups(mounts, "0::/user.slice\n", root_);
  EXPECT_EQ(trees.version, 2);
  EXPECT_EQ(trees.cpu, root_ / "cg/user.slice");
  EXPECT_EQ(trees.memory, root_ / "cg/user.slice");
  Put("cg/user.slice/cgroup.controllers", "io pids\n");
  const auto none = FindCgroups(mounts, "0::/user.slice\n", root_);
  EXPECT_EQ(none.version, 0);
  EXPECT_NE(none.why_not, "");
}

TEST_F(Tree, FallsBackToTheMountWhereOurPathIsNotVisible) {
  Put("cg/cgroup.procs", "");
  const auto trees =
      FindCgroups("cgroup /cg cgroup rw,cpu,cpuacct 0 0\n", "1:cpu:/docker/abc\n", root_);
  EXPECT_EQ(trees.cpu, root_ / "cg");
}

TEST_F(Tree, SweepsGroupsOfDeadMakersOnly) {
  const std::string start = "1";  // no process of ours has ever started in the first tick
  fs::create_directories(root_ / ("hase-" + std::to_string(getpid()) + "-" + start + "-0"));
  fs::create_directories(root_ / "someone-elses");
  fs::create_directories(root_ / "hase-notes");
  EXPECT_EQ(SweepCgroups({.version = 1, .cpu = root_, .memory = {}, .why_not = {}}), 1);
  EXPECT_TRUE(fs::exists(root_ / "someone-elses"));
  EXPECT_TRUE(fs::exists(root_ / "hase-notes"));
}

TEST(PartitionTest, RefusesWhatTheMachineHasNot) {
  EXPECT_FALSE(Partition::Make({.cores = {4096}}));
  EXPECT_FALSE(Partition::Make({.quota = MilliShare(0)}));
  EXPECT_FALSE(Partition::Make({.quota = MilliShare(1001)}));
}

TEST(PartitionTest, WithoutControlGroupsTheWorkerLimitsItself) {
  const auto partition = Partition::Make({.quota = MilliShare(600), .without_cgroups = true});
  ASSERT_TRUE(partition);
  EXPECT_EQ(partition->limiter(), Limiter::kDutyCycle);
  EXPECT_EQ(partition->duty(), MilliShare(600));
  const auto half = partition->Divide(MilliShare(500), GiB(1));
  ASSERT_TRUE(half);
  EXPECT_EQ(half->duty(), MilliShare(300));
  EXPECT_FALSE(half->limits_memory());
}

TEST(PartitionTest, QuotaHoldsOnAProcessInside) {
  if (MachineCgroups().version == 0) GTEST_SKIP() << MachineCgroups().why_not;
  const int core = OnlineCores() - 1;
  const auto partition = Partition::Make({.cores = {core}, .quota = MilliShare(300)});
  ASSERT_TRUE(partition) << partition.error().message;
  EXPECT_EQ(partition->duty(), kWholeDevice);
  const auto whole = partition->Divide(kWholeDevice, Bytes(0));
  const auto half = partition->Divide(MilliShare(500), Bytes(0));
  ASSERT_TRUE(whole && half);
  // Other processes may take time from us, so only the upper edge is sharp.
  const double part = PartOfTime(*whole, 0.4);
  EXPECT_LT(part, 0.36);
  EXPECT_GT(part, 0.05);
  EXPECT_LT(PartOfTime(*half, 0.4), 0.2);
}

TEST(PartitionTest, GroupsAreGoneAfterwards) {
  const auto& trees = MachineCgroups();
  if (trees.version == 0) GTEST_SKIP() << trees.why_not;
  const auto count = [&] {
    int groups = 0;
    const std::string mine = "hase-" + std::to_string(getpid()) + "-";
    for (const auto& entry : fs::directory_iterator(trees.cpu))
      groups += entry.path().filename().string().starts_with(mine);
    return groups;
  };
  {
    const auto partition = Partition::Make({.quota = MilliShare(500)});
    ASSERT_TRUE(partition);
    EXPECT_EQ(count(), 1);
    // Even with a process inside that nobody ended.
    const pid_t child = fork();
    if (child == 0) {
      partition->Enter();
      pause();
      _exit(0);
    }
    usleep(20000);
  }
  EXPECT_EQ(count(), 0);
  EXPECT_GT(waitpid(-1, nullptr, 0), 0);
}

}  // namespace
}  // namespace hase::execution

// Real worker processes on real (small) models: what they report, and every way they can end.
#include "execution/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hase::execution {
namespace {
using testing::HasSubstr;

LoadRequest Model(const std::string& name, int64_t batch = 1) {
  LoadRequest load;
  load.model = "tests/models/" + name + ".onnx";
  load.batch = batch;
  return load;
}

Partition OneCore(PartitionSpec spec = {}) {
  spec.cores = {0};
  auto partition = Partition::Make(spec);
  EXPECT_TRUE(partition);
  return std::move(*partition);
}

// The next message that is no Beat.
Message Next(Worker& worker) {
  for (;;) {
    auto message = worker.Receive(FromSeconds(60));
    if (!message) return Failure{.why = "the test waited in vain"};
    if (!std::holds_alternative<Beat>(*message)) return *message;
  }
}

TEST(WorkerTest, LoadsRunsInChunksAndFillsTheLastBatch) {
  const Partition partition = OneCore();
  auto run = RunWorker(partition, Model("tiny", 4),
                       {{.inputs = 10, .chunk_inputs = 8, .want_times = true}});
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_EQ(run->chunks.size(), 2u);
  EXPECT_EQ(run->chunks[0].inputs, 8);
  EXPECT_EQ(run->chunks[0].batches, 2);
  EXPECT_EQ(run->chunks[1].inputs, 2);
  EXPECT_EQ(run->chunks[1].batches, 1);
  EXPECT_EQ(run->chunks[0].times.size(), 2u);
  EXPECT_GT(run->chunks[0].busy, Nanos(0));
  EXPECT_GT(run->loaded.load, run->loaded.create);
  EXPECT_GE(run->loaded.peak, run->loaded.baseline);
  EXPECT_GT(run->peak_run, MiB(1));
}

TEST(WorkerTest, ProfilesNodesByName) {
  const Partition partition = OneCore();
  LoadRequest load = Model("tiny");
  load.warm_up = 2;
  load.profile_prefix = testing::TempDir() + "/hase_profile";
  const auto run = RunWorker(partition, load, {{.inputs = 5}});
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_FALSE(run->nodes.empty());
  for (const auto& node : run->nodes) EXPECT_EQ(node.runs, 5) << node.name;
}

TEST(WorkerTest, PeaksOfLoadAndRunAreApart) {
  const Partition partition = OneCore();
  const auto run = RunWorker(partition, Model("hungry"), {{.inputs = 1}});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_LT(run->loaded.peak, MiB(200));
  EXPECT_GT(run->peak_run, MiB(250));
}

TEST(WorkerTest, DutyCycleStretchesTheRun) {
  const Partition whole = OneCore();
  const Partition third = OneCore({.quota = MilliShare(333), .without_cgroups = true});
  const std::vector<RunRequest> runs = {{.inputs = 3}, {.inputs = 20}};
  const auto fast = RunWorker(whole, Model("steady"), runs);
  const auto slow = RunWorker(third, Model("steady"), runs);
  ASSERT_TRUE(fast && slow);
  EXPECT_GT(Ratio(slow->chunks[1].busy, slow->chunks[1].processor), 2.5);
  EXPECT_GT(slow->chunks[1].busy, fast->chunks[1].busy);
}

TEST(WorkerTest, RefusesWhatIsNoModelAndWhatContradictsIt) {
  const Partition partition = OneCore();
  const auto broken = RunWorker(partition, Model("broken"), {{.inputs = 1}});
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("broken.onnx"));
  const auto fixed = RunWorker(partition, Model("fixed2", 3), {{.inputs = 3}});
  ASSERT_FALSE(fixed);
  EXPECT_EQ(fixed.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(fixed.error().message, HasSubstr("batch"));
  EXPECT_FALSE(RunWorker(partition, Model("absent"), {{.inputs = 1}}));
}

TEST(WorkerTest, StopsAtTheEdgeOfAChunk) {
  const Partition partition = OneCore();
  auto worker = Worker::Spawn(partition, Model("steady"));
  ASSERT_TRUE(worker);
  ASSERT_TRUE(worker->Send(RunRequest{.inputs = 1'000'000, .chunk_inputs = 2}));
  EXPECT_TRUE(std::holds_alternative<Loaded>(Next(*worker)));
  EXPECT_TRUE(std::holds_alternative<Chunk>(Next(*worker)));
  ASSERT_TRUE(worker->Send(StopRequest{}));
  int more = 0;
  Message last = Next(*worker);
  for (; std::holds_alternative<Chunk>(last); last = Next(*worker)) ++more;
  EXPECT_TRUE(std::holds_alternative<Done>(last));
  EXPECT_LT(more, 50);
}

TEST(WorkerTest, AKilledWorkerIsAFailureAndIsReaped) {
  const Partition partition = OneCore();
  auto worker = Worker::Spawn(partition, Model("steady"));
  ASSERT_TRUE(worker);
  ASSERT_TRUE(worker->Send(RunRequest{.inputs = 1'000'000, .chunk_inputs = 10}));
  EXPECT_TRUE(std::holds_alternative<Loaded>(Next(*worker)));
  kill(worker->pid(), SIGKILL);
  Message last = Next(*worker);
  while (std::holds_alternative<Chunk>(last)) last = Next(*worker);
  ASSERT_TRUE(std::holds_alternative<Failure>(last));
  EXPECT_THAT(std::get<Failure>(last).why, HasSubstr("signal 9"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a zombie is left";
}

TEST(WorkerTest, WhoOverrunsItsMemoryDiesAlone) {
  const Partition whole = OneCore();
  auto partition = whole.Divide(kWholeDevice, MiB(200));
  ASSERT_TRUE(partition) << partition.error().message;
  LoadRequest load = Model("hungry", 2);
  load.memory_limit = MiB(200);  // for where the kernel does not hold it
  auto worker = Worker::Spawn(*partition, load);
  ASSERT_TRUE(worker);
  ASSERT_TRUE(worker->Send(RunRequest{.inputs = 20}));
  Message last = Next(*worker);
  while (!std::holds_alternative<Failure>(last) && !std::holds_alternative<Done>(last))
    last = Next(*worker);
#if !defined(__SANITIZE_ADDRESS__) && !defined(HASE_SANITIZED)
  ASSERT_TRUE(std::holds_alternative<Failure>(last));
  EXPECT_TRUE(std::get<Failure>(last).out_of_memory) << std::get<Failure>(last).why;
#endif
}

TEST(WorkerTest, DoesNotOutliveItsParent) {
  int pipe_fd[2];
  ASSERT_EQ(pipe(pipe_fd), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const Partition partition = OneCore();
    auto worker = Worker::Spawn(partition, Model("steady"));
    const pid_t pid = worker ? worker->pid() : -1;
    if (worker && !worker->Send(RunRequest{.inputs = 1'000'000})) _exit(1);
    if (worker) Next(*worker);
    if (write(pipe_fd[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    kill(getpid(), SIGKILL);
  }
  pid_t orphan = -1;
  ASSERT_EQ(read(pipe_fd[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  waitpid(parent, nullptr, 0);
  ASSERT_GT(orphan, 0);
  bool gone = false;
  for (int i = 0; i < 400 && !gone; ++i) {
    usleep(5000);
    gone = kill(orphan, 0) != 0;
    // Where nobody reaps orphans it stays a zombie, which computes nothing.
    if (FILE* stat = std::fopen(("/proc/" + std::to_string(orphan) + "/stat").c_str(), "r")) {
      char state = 0;
      if (std::fscanf(stat, "%*d %*s %c", &state) == 1) gone = gone || state == 'Z';
      std::fclose(stat);
    }
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace hase::execution

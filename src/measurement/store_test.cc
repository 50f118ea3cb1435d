#include "measurement/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hase::measurement {
namespace {
namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("hase_store_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

execution::LogEntry Entry(int n, std::string_view kind) {
  return {.time = Nanos(n),
          .seq = static_cast<uint64_t>(n),
          .kind = kind,
          .job = "job \"" + std::to_string(n),
          .device = "here/0",
          .share = MilliShare(600),
          .why = "why",
          .predicted = Nanos(n * 2),
          .inputs = n};
}

TEST_F(StoreTest, KeepsWhatItIsGivenAcrossOpenings) {
  {
    auto store = Store::Open(folder_);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->Remember("jobs", "old"));
    ASSERT_TRUE((*store)->Remember("jobs", "a,b\n1,2\n"));
    const auto run = (*store)->BeginRun("hase");
    ASSERT_TRUE(run);
    auto journal = (*store)->JournalOf(*run);
    ASSERT_TRUE(journal->Append(Entry(1, "arrived")));
    ASSERT_TRUE(journal->Append(Entry(2, "chunk")));
  }
  auto store = Store::Open(folder_);
  ASSERT_TRUE(store);
  EXPECT_EQ(**(*store)->Recall("jobs"), "a,b\n1,2\n");
  EXPECT_FALSE((*store)->Recall("absent")->has_value());
  auto runs = (*store)->Runs();
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_FALSE(runs->front().done);
  const auto entries = (*store)->Entries(runs->front().id);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ(entries->at(1).kind, "chunk");
  EXPECT_EQ(entries->at(1).job, "job \"2");
  EXPECT_EQ(entries->at(1).inputs, 2);
  EXPECT_EQ(entries->at(1).share, MilliShare(600));
  ASSERT_TRUE((*store)->EndRun(runs->front().id, "{}"));
  EXPECT_TRUE((*store)->Runs()->front().done);
  ASSERT_TRUE((*store)->ForgetRuns());
  EXPECT_TRUE((*store)->Runs()->empty());
}

TEST_F(StoreTest, AQueueThatCannotBeginLeavesTheOldOneWhole) {
  auto store = Store::Open(folder_);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->StartQueue({{"jobs", "old"}}, {"hase"}));
  const int64_t old = (*store)->Runs()->front().id;
  ASSERT_TRUE((*store)->JournalOf(old)->Append(Entry(1, "finished")));
  ASSERT_TRUE((*store)->EndRun(old, "{}"));
  {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / "hase.db").c_str(), &db), SQLITE_OK);
    sqlite3_exec(db,
                 "CREATE TRIGGER refuse BEFORE INSERT ON runs WHEN NEW.policy = 'foo' BEGIN "
                 "SELECT RAISE(ABORT, 'refused'); END",
                 nullptr, nullptr, nullptr);
    sqlite3_close(db);
  }
  EXPECT_FALSE((*store)->StartQueue({{"jobs", "new"}}, {"mct", "foo"}));
  EXPECT_EQ(**(*store)->Recall("jobs"), "old");
  const auto runs = (*store)->Runs();
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_TRUE(runs->front().done);
  EXPECT_EQ((*store)->Entries(old)->size(), 1u);
  ASSERT_TRUE((*store)->StartQueue({{"jobs", "new"}}, {"mct", "round-robin"}));
  EXPECT_EQ((*store)->Runs()->size(), 2u);
  EXPECT_EQ(**(*store)->Recall("jobs"), "new");
}

TEST_F(StoreTest, AJournalThatWasChangedIsRefused) {
  auto store = Store::Open(folder_);
  ASSERT_TRUE(store);
  const auto refused = [&](const std::vector<execution::LogEntry>& entries) {
    const auto run = (*store)->BeginRun("hase");
    for (const auto& entry : entries) EXPECT_TRUE((*store)->JournalOf(*run)->Append(entry));
    const auto read = (*store)->Entries(*run);
    return read ? std::string() : read.error().message;
  };
  EXPECT_EQ(refused({Entry(1, "started"), Entry(2, "finished")}), "");
  EXPECT_THAT(refused({Entry(1, "finished"), Entry(1, "finished")}),
              testing::AllOf(testing::HasSubstr("hase.db"), testing::HasSubstr("finished twice")));
  EXPECT_THAT(refused({Entry(-1, "started")}), testing::HasSubstr("a time before"));
  EXPECT_THAT(refused({Entry(1, "dreamt")}), testing::HasSubstr("unknown kind"));
}

TEST_F(StoreTest, OneProcessAtATime) {
  auto first = Store::Open(folder_);
  ASSERT_TRUE(first);
  const auto second = Store::Open(folder_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, testing::HasSubstr("another hase"));
}

TEST_F(StoreTest, WhatWasAppendedSurvivesAKill) {
  int pipe_fd[2];
  ASSERT_EQ(pipe(pipe_fd), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    auto store = Store::Open(folder_);
    const auto run = (*store)->BeginRun("hase");
    auto journal = (*store)->JournalOf(*run);
    for (int i = 0;; ++i) {
      if (!journal->Append(Entry(i, "chunk"))) _exit(1);
      // Only now may the engine act on it.
      if (write(pipe_fd[1], &i, sizeof i) != sizeof i) _exit(1);
    }
  }
  close(pipe_fd[1]);
  int last = -1;
  for (int n = 0, value = 0; n < 300 && read(pipe_fd[0], &value, sizeof value) > 0; ++n)
    last = value;
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  close(pipe_fd[0]);
  ASSERT_EQ(last, 299);
  auto store = Store::Open(folder_);
  ASSERT_TRUE(store);
  const auto entries = (*store)->Entries((*store)->Runs()->front().id);
  ASSERT_TRUE(entries);
  ASSERT_GE(entries->size(), 300u);
  for (size_t i = 0; i < entries->size(); ++i) EXPECT_EQ(entries->at(i).seq, i);
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsAnError) {
  const auto store = Store::Open("/proc/no/such");
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, testing::HasSubstr("--state"));
}

}  // namespace
}  // namespace hase::measurement

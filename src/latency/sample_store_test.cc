#include "latency/sample_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace hase::latency {
namespace {
namespace fs = std::filesystem;

class SampleStoreTest : public testing::Test {
 protected:
  SampleStoreTest() : dir_(fs::temp_directory_path() / ("hase_store_" + std::to_string(getpid()))) {
    fs::create_directories(dir_);
  }
  ~SampleStoreTest() override { fs::remove_all(dir_); }
  fs::path File() const { return dir_ / "samples.db"; }
  fs::path dir_;
};

Sample Convolution() {
  Sample sample;
  model::Kernel& k = sample.kernel;
  k.name = "conv1";
  k.op = "Conv+Add+Relu";
  k.op_class = model::OpClass::kConv;
  k.precision = model::Precision::kFp32;
  k.inputs = {{1, 64, 56, 56}, {64, 64, 3, 3}, {64}};
  k.output = {1, 64, 56, 56};
  k.window = {
      .kernel = {3, 3}, .stride = {1, 2}, .pad = {1, 0, 1, 2}, .dilation = {1, 1}, .groups = 4};
  k.fused_add = true;
  k.activation = "relu";
  k.flops = 231211008;
  k.bytes_activations = 802816;
  k.bytes_weights = 147456;
  k.bytes_written = 802816;
  k.m = 3136;
  k.n = 64;
  k.k = 576;
  k.gemm_batch = 1;
  k.reuse = {.activations = 1 << 20, .weights = 3 << 20, .output = 5 << 20};
  sample.model = "resnet50";
  sample.batch = 1;
  sample.device = "cpu-1c-q1";
  sample.source = "profile";
  sample.latency_us = 1234.5;
  sample.spread = 0.04;
  sample.repeats = 9;
  return sample;
}

Sample Whole(const std::string& model, int64_t batch) {
  Sample sample;
  sample.kernel.op = "Model";
  sample.model = model;
  sample.whole_model = true;
  sample.batch = batch;
  sample.device = "cpu-1c-q1";
  sample.source = "profile";
  sample.latency_us = 40000;
  sample.memory_load = MiB(303);
  sample.memory_run = MiB(310);
  sample.load_time = FromMillis(412);
  return sample;
}

TEST_F(SampleStoreTest, GivesBackWhatWasAppended) {
  auto store = SampleStore::Open(File(), "m");
  ASSERT_TRUE(store) << store.error().message;
  const std::vector<Sample> samples = {Convolution(), Whole("resnet50", 1), Whole("vgg16", 4)};
  ASSERT_TRUE(store->Append(samples, 2300));
  const auto all = store->Query({});
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].kernel, samples[0].kernel);
  EXPECT_EQ((*all)[0].latency_us, 1234.5);
  EXPECT_EQ((*all)[0].repeats, 9);
  EXPECT_EQ((*all)[1].memory_load, MiB(303));
  EXPECT_EQ((*all)[1].load_time, FromMillis(412));
  EXPECT_EQ(
      store->Query({.device = "cpu-1c-q1", .model = "resnet50", .whole_model = true, .batch = 1})
          ->size(),
      1u);
  EXPECT_EQ(*store->Count({.model = "resnet50"}), 2);
  ASSERT_TRUE(store->Remove({.model = "resnet50"}));
  EXPECT_EQ(*store->Count({}), 1);
}

TEST_F(SampleStoreTest, KeepsAcrossOpeningAndSeparatesMachines) {
  {
    auto store = SampleStore::Open(File(), "one");
    ASSERT_TRUE(store);
    const std::vector<Sample> samples = {Convolution()};
    ASSERT_TRUE(store->Append(samples));
    cluster::MicroBenchmarks bench;
    bench.date = "2025-01-01T00:00:00Z";
    bench.gemm_large = 88;
    bench.launch_us = 4.5;
    ASSERT_TRUE(store->PutBench("cpu-1c-q1", bench));
    bench.gemm_large = 90;
    ASSERT_TRUE(store->PutBench("cpu-1c-q1", bench));
  }
  auto same = SampleStore::Open(File(), "one");
  ASSERT_TRUE(same);
  EXPECT_EQ(*same->Count({}), 1);
  const auto bench = same->Bench("cpu-1c-q1");
  ASSERT_TRUE(bench && *bench);
  EXPECT_TRUE((*bench)->measured);
  EXPECT_EQ((*bench)->gemm_large, 90);
  EXPECT_EQ((*bench)->launch_us, 4.5);
  EXPECT_FALSE(*same->Bench("cpu-1c-q0.6"));
  auto other = SampleStore::Open(File(), "two");
  ASSERT_TRUE(other);
  EXPECT_EQ(*other->Count({}), 0);
}

TEST_F(SampleStoreTest, AFileThatIsNoStoreIsNamed) {
  std::ofstream(File()) << "this is certainly not a database file, but long enough to look at "
                           "and then to be refused";
  const auto store = SampleStore::Open(File(), "m");
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find(File().string()), std::string::npos);
  EXPECT_NE(store.error().message.find("move it away"), std::string::npos);
}

TEST_F(SampleStoreTest, AStoreOfANewerVersionIsRefused) {
  {
    ASSERT_TRUE(SampleStore::Open(File(), "m"));
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(File().c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  const auto store = SampleStore::Open(File(), "m");
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("newer HASE"), std::string::npos);
}

// Opens a store of version 2 after `sql` changed it.
Result<SampleStore> OpenAfter(const std::filesystem::path& file, const char* sql) {
  EXPECT_TRUE(SampleStore::Open(file, "m"));
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  return SampleStore::Open(file, "m");
}

TEST_F(SampleStoreTest, AVersionThatIsNoneIsRefused) {
  for (const char* sql :
       {"PRAGMA user_version = -3", "PRAGMA user_version = 0", "PRAGMA user_version = 1"}) {
    std::filesystem::remove(File());
    const auto store = OpenAfter(File(), sql);
    ASSERT_FALSE(store) << sql;
    EXPECT_NE(store.error().message.find(File().string()), std::string::npos);
    EXPECT_NE(store.error().message.find("move it away"), std::string::npos)
        << store.error().message;
  }
}

TEST_F(SampleStoreTest, ReadingCreatesNothing) {
  auto none = SampleStore::OpenToRead(File(), "m");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_FALSE(std::filesystem::exists(File()));
  {
    auto store = SampleStore::Open(File(), "m");
    ASSERT_TRUE(store->Append(std::vector<Sample>{Convolution()}));
  }
  auto read = SampleStore::OpenToRead(File(), "m");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  EXPECT_EQ(*(*read)->Count({}), 1);
  EXPECT_FALSE((*read)->Append(std::vector<Sample>{Convolution()}));
}

TEST_F(SampleStoreTest, DamageAndRowsOfNoUseAreFound) {
  {
    auto store = SampleStore::Open(File(), "m");
    const std::vector<Sample> many(500, Convolution());
    ASSERT_TRUE(store->Append(many));
    EXPECT_TRUE(store->Check());
    EXPECT_EQ(*store->CountUnusable(), 0);
  }
  {
    const auto store = OpenAfter(File(),
                                 "UPDATE samples SET latency_us = -1 WHERE id = 1;"
                                 "UPDATE samples SET latency_us = 'fast' WHERE id = 2");
    ASSERT_TRUE(store);
    EXPECT_EQ(*store->CountUnusable(), 2);
  }
  std::fstream file(File(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 4096);
  file << std::string(4096 * 4, '\x7e');
  file.close();
  const auto store = SampleStore::OpenToRead(File(), "m");
  ASSERT_TRUE(store);
  const auto checked = (*store)->Check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("damaged"), std::string::npos);
}

TEST_F(SampleStoreTest, AStoreOfTheFirstVersionIsTakenOver) {
  {
    auto store = SampleStore::Open(File(), "m");
    ASSERT_TRUE(store);
    ASSERT_TRUE(store->Append(std::vector<Sample>{Convolution()}));
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(File().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "ALTER TABLE samples DROP COLUMN reuse_activations;"
                         "ALTER TABLE samples DROP COLUMN reuse_weights;"
                         "ALTER TABLE samples DROP COLUMN reuse_output;"
                         "PRAGMA user_version = 1",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  auto store = SampleStore::Open(File(), "m");
  ASSERT_TRUE(store) << store.error().message;
  const auto all = store->Query({});
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].kernel.reuse, model::Reuse{});
  EXPECT_EQ((*all)[0].latency_us, 1234.5);
}

TEST_F(SampleStoreTest, AFullDiskIsAnErrorAndUndoesTheWholeBatch) {
  auto store = SampleStore::Open(File(), "m");
  ASSERT_TRUE(store);
  const std::vector<Sample> one = {Convolution()};
  ASSERT_TRUE(store->Append(one));
  // A bound on file size stands for the full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit bound = {.rlim_cur = 256 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &bound), 0);
  const std::vector<Sample> many(20000, Convolution());
  const auto status = store->Append(many);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find(File().string()), std::string::npos);
  EXPECT_EQ(*store->Count({}), 1);
  EXPECT_TRUE(store->Append(one)) << "usable again once there is space";
}

TEST_F(SampleStoreTest, AFolderThatDoesNotExistIsNamed) {
  const auto store = SampleStore::Open(dir_ / "no/such/samples.db", "m");
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("no/such/samples.db"), std::string::npos);
}

}  // namespace
}  // namespace hase::latency

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/csv.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_reason.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "base/units.h"
#include "base/yaml.h"

namespace hase {
namespace {

TEST(Csv, ReadsQuotesAndCrlf) {
  auto t = CsvTable::Parse("j.csv", "a,b\r\n\"x,\"\"y\"\"\",2\r\nz,", {"a", "b"}, {"a"});
  ASSERT_TRUE(t);
  ASSERT_EQ(t->rows(), 2u);
  EXPECT_EQ(t->Text(0, "a"), "x,\"y\"");
  EXPECT_EQ(*t->RequiredInteger(0, "b"), 2);
  EXPECT_EQ(*t->Number(1, "b"), std::nullopt);
}

struct BadCsv {
  const char* text;
  const char* message;
};
class CsvErrors : public testing::TestWithParam<BadCsv> {};
TEST_P(CsvErrors, NameThePlace) {
  auto t = CsvTable::Parse("j.csv", GetParam().text, {"a", "b"}, {"a"});
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().message, GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    All, CsvErrors,
    testing::Values(BadCsv{"", "j.csv:1: empty file, no header line"},
                    BadCsv{"a,c\n", "j.csv:1:2: unknown column 'c'"},
                    BadCsv{"b\n1\n", "j.csv:1: column 'a' is missing"},
                    BadCsv{"a,b\n1,2\n3\n", "j.csv:3: 1 fields where the header has 2"},
                    BadCsv{"a,b\n1,\"2\n3,4\n", "j.csv:2:2: quote never closed"},
                    BadCsv{"a,a\n", "j.csv:1:2: column 'a' twice"}));

TEST(Csv, NumbersMustBeFinite) {
  auto t = CsvTable::Parse("j.csv", "a,b\nnan,99999999999999999999\n", {"a", "b"}, {});
  ASSERT_TRUE(t);
  EXPECT_EQ(t->Number(0, "a").error().message, "j.csv:2:1 (a): 'nan' is not a finite number");
  EXPECT_EQ(t->Integer(0, "b").error().message,
            "j.csv:2:2 (b): '99999999999999999999' is not a whole number of 64 bits");
}

TEST(Yaml, NamesLineAndColumn) {
  auto y = Yaml::Parse("c.yaml", "nodes:\n  - name: a\n    cuont: 3\n");
  ASSERT_TRUE(y);
  auto nodes = y->Get("nodes")->Items();
  ASSERT_TRUE(nodes);
  EXPECT_EQ((*nodes)[0].CheckKeys({"name", "count"}).error().message,
            "c.yaml:3:5: unknown key 'cuont'");
  EXPECT_EQ((*nodes)[0].Integer("name").error().message, "c.yaml:2:11: 'a' is not a whole number");
  EXPECT_EQ(y->Text("x").error().message, "c.yaml:1:1: key 'x' is missing");
}

TEST(Yaml, RefusesBrokenAndDeepDocuments) {
  EXPECT_TRUE(Yaml::Parse("c.yaml", "a: [1, 2").error().message.starts_with("c.yaml:1:"));
  EXPECT_FALSE(Yaml::Parse("c.yaml", std::string(100000, '[')));
  EXPECT_FALSE(Yaml::Parse("c.yaml", std::string(3000, '-')));
}

TEST(File, XzComesBackAndTruncationIsSaid) {
  const std::string text(100000, 'a');
  auto packed = Compress(text);
  ASSERT_TRUE(packed);
  EXPECT_EQ(*Decompress(*packed), text);
  EXPECT_EQ(Decompress(packed->substr(0, packed->size() / 2)).error().message, "truncated xz data");
  EXPECT_FALSE(Decompress(*packed, 1000));
}

TEST(File, APipeIsWrittenToNotReplaced) {
  const auto pipe = std::filesystem::path(testing::TempDir()) / "base_test.pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_TRUE(WriteFileAtomically(pipe, "content").has_value());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  char received[16] = {};
  EXPECT_EQ(::read(reader, received, sizeof received), 7);
  ::close(reader);
  std::filesystem::remove(pipe);
}

TEST(File, WriteNeedsAFolder) {
  EXPECT_FALSE(WriteFileAtomically("/nonexistent/folder/x", "y"));
  EXPECT_FALSE(CanWrite("/nonexistent/folder/x"));
  EXPECT_FALSE(CanWrite(std::filesystem::temp_directory_path()));
  EXPECT_TRUE(CanWrite("/dev/null"));
  EXPECT_TRUE(CanWrite("in-this-folder"));
  const auto path = std::filesystem::temp_directory_path() / "hase_file_test";
  ASSERT_TRUE(WriteFileAtomically(path, "hello"));
  EXPECT_EQ(*ReadFile(path), "hello");
  EXPECT_FALSE(ReadFile(path, 3));
  std::filesystem::remove(path);
}

// Renaming a temporary over /dev/null or /dev/stdout would replace the device by a file.
TEST(File, WritesIntoWhatIsNoRegularFile) {
  const auto pipe = std::filesystem::temp_directory_path() / "hase_file_test_pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(WriteFileAtomically(pipe, "hello"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 5);
  EXPECT_STREQ(got, "hello");
  ::close(reader);
  std::filesystem::remove(pipe);
}

TEST(Rng, SameSeedSameNumbersAndSplitsDiffer) {
  Rng a(7), b(7);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Split("arrivals").Next(), a.Split("sizes").Next());
  Rng r(1);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) sum += r.Exponential(4);
  EXPECT_NEAR(sum / 20000, 0.25, 0.01);
  for (int i = 0; i < 1000; ++i) {
    const int64_t v = r.UniformInt(-2, 2);
    EXPECT_TRUE(v >= -2 && v <= 2);
  }
}

TEST(Hash, IsFnv1a64) { EXPECT_EQ(Fnv1a64("foobar"), 0x85944171f73967e8ULL); }

TEST(Units, ConvertAndCompare) {
  EXPECT_EQ(FromSeconds(1.5), Nanos(1'500'000'000));
  EXPECT_LT(FromMillis(1), FromMillis(2));
  EXPECT_EQ(ToFraction(ShareFromFraction(0.3)), 0.3);
}

TEST(JsonReason, SpeaksPlainly) {
  EXPECT_EQ(JsonReason("[json.exception.out_of_range.403] key 'x' not found"),
            "key 'x' is missing");
  EXPECT_EQ(JsonReason("[json.exception.type_error.302] type must be number, but is string"),
            "expected a number, found a string");
  EXPECT_EQ(JsonReason("[json.exception.type_error.304] cannot use at() with array"),
            "expected an object, found an array");
  EXPECT_EQ(JsonReason("[json.exception.parse_error.101] parse error at line 1, column 2: syntax "
                       "error while parsing value - invalid literal; last read: 'no'"),
            "not JSON (line 1, column 2)");
}

TEST(Nearest, NamesTheThreeThatMayBeMeant) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(NearestNames("resnet19", {"vgg16", "resnet50", "resnet18", "resnet101"}),
            "resnet18, resnet101, resnet50");
  EXPECT_EQ(NearestNames("x", {}), "");
}

}  // namespace
}  // namespace hase

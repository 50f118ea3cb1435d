#include "model/ort/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hase::model::ort {
namespace {

using testing::HasSubstr;

TEST(Session, NamesTheFileThatIsMissing) {
  const auto session = Session::Create("no/such/model.onnx", SessionOptions{});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(session.error().message, HasSubstr("no/such/model.onnx"));
}

TEST(Session, RefusesBytesThatAreNoModelOnOneLine) {
  const auto session = Session::Create("this is not protobuf", "noise.onnx", SessionOptions{});
  ASSERT_FALSE(session);
  EXPECT_THAT(session.error().message, HasSubstr("noise.onnx"));
  EXPECT_EQ(session.error().message.find('\n'), std::string::npos);
}

TEST(Session, SaysWhyCudaCannotBeUsed) {
  const auto usable = ProviderUsable(Provider::kCuda);
  if (usable) GTEST_SKIP() << "this machine has a usable CUDA provider";
  EXPECT_EQ(usable.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(usable.error().message, HasSubstr("CUDA provider"));
}

std::string Event(std::string_view node, int duration, std::string_view category = "Node") {
  return R"({"cat":")" + std::string(category) + R"(","name":")" + std::string(node) +
         R"(_kernel_time","dur":)" + std::to_string(duration) +
         R"(,"args":{"op_name":"Conv","provider":"CPUExecutionProvider"}})";
}

TEST(Profile, TakesMediansAfterTheSkippedRunsInExecutionOrder) {
  const std::string text = "[" + Event("b", 900) + "," + Event("a", 5) + "," + Event("b", 10) +
                           "," + Event("a", 7) + "," + Event("b", 30) + "," + Event("b", 20) + "," +
                           Event("session", 1, "Session") + "]";
  const auto times = ParseProfile(text, "p.json", 1);
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_EQ(times->size(), 2u);
  EXPECT_EQ((*times)[0].name, "b");
  EXPECT_DOUBLE_EQ((*times)[0].p50_us, 20);
  EXPECT_EQ((*times)[0].runs, 3);
  EXPECT_EQ((*times)[1].name, "a");
  EXPECT_DOUBLE_EQ((*times)[1].p50_us, 7);
}

TEST(Profile, RefusesWhatIsNoProfile) {
  EXPECT_FALSE(ParseProfile("{", "p.json", 0));
  EXPECT_FALSE(ParseProfile("{}", "p.json", 0));
  EXPECT_FALSE(ParseProfile("[1, {\"cat\": 3}]", "p.json", 0));
}

}  // namespace
}  // namespace hase::model::ort

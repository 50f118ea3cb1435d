#include "model/kernels_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/resolve.h"

namespace hase::model {
namespace {

using testing::HasSubstr;

// One 3×3 convolution with ReLU on an 8×8 image, and a global pool.
constexpr std::string_view kSmall = R"({
"format":"hase-kernels","version":1,"model":"small","params":448,"opset":17,
"inputs":[0],"input_names":["images"],"outputs":[5],
"tensors":["float32[N,3,8,8]","const float32[16,3,3,3]","const float32[16]",
"float32[N,16,8,8]","float32[N,16,8,8]","float32[N,16,1,1]"],
"nodes":[
{"name":"conv","op":"Conv","in":[0,1,2],"out":[3],"window":[3,3,1,1,1,1,1,1,1,1,1]},
{"name":"relu","op":"Relu","in":[3],"out":[4]},
{"name":"pool","op":"GlobalAveragePool","in":[4],"out":[5]}]})";

std::string Replaced(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return text;
}

std::string ErrorOf(const std::string& text) {
  const auto graph = ReadKernelsJson(text, "small.kernels.json");
  return graph ? "no error" : graph.error().message;
}

TEST(KernelsJson, ReadsBackWhatItWrites) {
  const auto graph = ReadKernelsJson(kSmall, "small.kernels.json");
  ASSERT_TRUE(graph) << graph.error().message;
  const auto again = ReadKernelsJson(WriteKernelsJson(*graph), "again.kernels.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*graph, *again);
}

TEST(KernelsJson, TensorsKeepTheirAffineDimensions) {
  for (const char* text : {"float32[N,3,224,224]", "const int64[2]", "float16[197N,768]",
                           "float32[2N+1]", "float32[N-1,4]", "int32[]"}) {
    const auto tensor = ParseTensor(text);
    ASSERT_TRUE(tensor) << text;
    EXPECT_EQ(FormatTensor(*tensor), text);
  }
  for (const char* text : {"float32", "float32[", "float32[1,]", "float32[x]", "real[1]",
                           "float32[N N]", "float32[99999999999999999999]", "float32[1+N]"}) {
    EXPECT_FALSE(ParseTensor(text)) << text;
  }
}

TEST(KernelsJson, ComplaintsNameThePlace) {
  EXPECT_THAT(ErrorOf("{\n  broken"), HasSubstr("small.kernels.json:2:"));
  EXPECT_THAT(ErrorOf(Replaced("\"version\":1", "\"version\":2")), HasSubstr("version"));
  EXPECT_THAT(ErrorOf(Replaced("\"opset\"", "\"colour\":1,\"opset\"")), HasSubstr("colour"));
  EXPECT_THAT(ErrorOf(Replaced("\"in\":[3]", "\"in\":[9]")), HasSubstr("'relu'"));
  EXPECT_THAT(ErrorOf(Replaced("\"in\":[3]", "\"in\":[5]")), HasSubstr("before any node makes it"));
  EXPECT_THAT(ErrorOf(Replaced("\"out\":[4]", "\"out\":[3]")), HasSubstr("exists already"));
  EXPECT_THAT(ErrorOf(Replaced("[N,16,1,1]", "[N,16,1")), HasSubstr("tensors[5]"));
  EXPECT_THAT(ErrorOf(Replaced("[3,3,1,1,1", "[3,3,0,1,1")), HasSubstr("nodes[0].window"));
  EXPECT_THAT(ErrorOf(Replaced("[N,3,8,8]", "[N,-3,8,8]")), HasSubstr("tensor 0"));
}

TEST(KernelsJson, KeysOfOthersAreIgnored) {
  EXPECT_EQ(ErrorOf(Replaced("\"opset\"", "\"x_note\":\"mine\",\"opset\"")), "no error");
}

TEST(Resolve, CountsByTheRulesAndScalesWithTheBatch) {
  const auto graph = ReadKernelsJson(kSmall, "small");
  ASSERT_TRUE(graph);
  const auto one = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 1);
  const auto eight = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 8);
  ASSERT_TRUE(one && eight);
  const Kernel& conv = one->kernels[0];
  EXPECT_EQ(conv.flops, 2 * 16 * 8 * 8 * 27);
  EXPECT_EQ(conv.m, 64);
  EXPECT_EQ(conv.n, 16);
  EXPECT_EQ(conv.k, 27);
  EXPECT_EQ(conv.bytes_activations, 4 * 3 * 64);
  EXPECT_EQ(conv.bytes_weights, 4 * (16 * 27 + 16));
  EXPECT_EQ(conv.bytes_written, 4 * 16 * 64);
  EXPECT_EQ(one->kernels[1].flops, 16 * 64);
  EXPECT_EQ(one->kernels[2].flops, 16 * 64);
  EXPECT_EQ(one->macs, 16 * 64 * 27);
  EXPECT_EQ(eight->total_flops(), 8 * one->total_flops());
  // The ReLU writes over the convolution's output; the pool's sixteen values come beside it.
  EXPECT_EQ(one->memory.peak_activations.value(), 4 * (16 * 64 + 16));
  EXPECT_EQ(one->memory.input.value(), 4 * 3 * 64);
  EXPECT_EQ(one->memory.weights.value(), 4 * (16 * 27 + 16));
}

TEST(Resolve, HalvesTheBytesInHalfPrecision) {
  const auto graph = ReadKernelsJson(kSmall, "small");
  ASSERT_TRUE(graph);
  const auto half = Resolve(*graph, Runtime::kOrtCuda, Precision::kFp16, 1);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->kernels[0].bytes_written, 2 * 16 * 64);
  EXPECT_EQ(half->kernels[0].precision, Precision::kFp16);
}

TEST(Resolve, OverflowNamesTheNode) {
  const auto graph = ReadKernelsJson(kSmall, "small");
  ASSERT_TRUE(graph);
  const auto huge = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, int64_t{1} << 58);
  ASSERT_FALSE(huge);
  EXPECT_THAT(huge.error().message, HasSubstr("'conv'"));
}

TEST(Resolve, RefusesABatchThatTheFileDoesNotAllow) {
  auto graph = ReadKernelsJson(Replaced("\"opset\"", "\"fixed_batch\":4,\"opset\""), "small");
  ASSERT_TRUE(graph);
  const auto other = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 8);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(other.error().message, HasSubstr("'images'"));
  EXPECT_FALSE(Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 0));
  EXPECT_TRUE(Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 4));
}

}  // namespace
}  // namespace hase::model

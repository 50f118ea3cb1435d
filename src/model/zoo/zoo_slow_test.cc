// Builds every zoo network anew: the ONNX file, lowered, must give the committed kernel list, and
// must run. Slow (the VGGs alone are 2 GB of weights), so in a binary of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "model/kernels_json.h"
#include "model/library.h"
#include "model/lower.h"
#include "model/onnx/file.h"
#include "model/ort/session.h"
#include "model/zoo/zoo.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

// ONNX Runtime blocks channels by sixteen with AVX-512, by eight with AVX2.
int64_t ChannelBlock() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 16;
#endif
}

// "operator name" of each kernel that ONNX Runtime runs at full optimisation, sorted. Reorders are
// numbered there; they go by the tensor in the plain layout.
std::vector<std::string> KernelsOfOnnxRuntime(const fs::path& model, const fs::path& optimised) {
  ort::SessionOptions options;
  options.save_optimised = optimised;
  options.dimensions = {{"N", 1}};
  const auto session = ort::Session::Create(model, options);
  EXPECT_TRUE(session) << session.error().message;
  const auto bytes = ReadFile(optimised);
  const auto file = onnx_file::OnnxFile::Parse(*bytes, optimised.string());
  std::vector<std::string> kernels;
  for (const auto& node : file->nodes()) {
    const std::string& op = node.node.op;
    const std::string name = op == "ReorderInput"    ? op + "/" + node.inputs[0]
                             : op == "ReorderOutput" ? op + "/" + node.outputs[0]
                                                     : node.node.name;
    kernels.push_back(op + " " + name);
  }
  std::ranges::sort(kernels);
  return kernels;
}

std::vector<std::string> KernelsByOurRules(const Graph& basic) {
  auto rules = LoadFusionRules("data/fusion/ort-cpu.yaml").value();
  rules.nchwc_block = ChannelBlock();
  std::vector<std::string> kernels;
  for (const Node& node : Fuse(basic, rules).nodes) {
    const std::string op = node.op.starts_with("nchwc.") ? node.op.substr(6) : node.op;
    kernels.push_back(op + " " + node.name);
  }
  std::ranges::sort(kernels);
  return kernels;
}

class BuiltZooModel : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const auto& model = zoo::ZooModels()[GetParam()];
    folder_ = fs::temp_directory_path() / ("hase_zoo_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    file_ = folder_ / (std::string(model.name) + ".onnx");
    const auto bytes = zoo::BuildOnnx(model);
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_TRUE(WriteFileAtomically(file_, *bytes));
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_, file_;
};

TEST_P(BuiltZooModel, LowersToTheCommittedKernelListAndRuns) {
  const auto graph = Lower(file_, {});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto committed = OpenModel(graph->model, "data");
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_EQ(WriteKernelsJson(*graph), WriteKernelsJson(*committed))
      << "run tools/update_zoo.sh and review the difference";

  auto session = ort::Session::Create(file_, ort::SessionOptions{});
  ASSERT_TRUE(session) << session.error().message;
  ASSERT_TRUE(session->Prepare(1));
  const auto sums = session->RunAndSum();
  ASSERT_TRUE(sums) << sums.error().message;
  ASSERT_EQ(sums->size(), 1u);
  EXPECT_TRUE(std::isfinite((*sums)[0]) && (*sums)[0] != 0) << (*sums)[0];
  EXPECT_LT(std::abs((*sums)[0]), 1e12);
}

TEST_P(BuiltZooModel, FusesAsOnnxRuntimeDoesNodeByNode) {
  const auto basic = OpenModel(std::string(zoo::ZooModels()[GetParam()].name), "data");
  ASSERT_TRUE(basic) << basic.error().message;
  const auto theirs = KernelsOfOnnxRuntime(file_, folder_ / "optimised.onnx");
  const auto ours = KernelsByOurRules(*basic);
  std::vector<std::string> missing, surplus;
  std::ranges::set_difference(theirs, ours, std::back_inserter(missing));
  std::ranges::set_difference(ours, theirs, std::back_inserter(surplus));
  EXPECT_THAT(missing, testing::IsEmpty());
  EXPECT_THAT(surplus, testing::IsEmpty());
  EXPECT_GT(theirs.size(), 10u);
}

INSTANTIATE_TEST_SUITE_P(All, BuiltZooModel, testing::Range<size_t>(0, 24), [](const auto& test) {
  return std::string(zoo::ZooModels()[test.param].name);
});

}  // namespace
}  // namespace hase::model

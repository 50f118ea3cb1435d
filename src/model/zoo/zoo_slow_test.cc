// Builds every zoo network anew: the ONNX file, lowered, must give the committed kernel list, and
// must run. Slow (the VGGs alone are 2 GB of weights), so in a binary of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "model/kernels_json.h"
#include "model/library.h"
#include "model/lower.h"
#include "model/ort/session.h"
#include "model/zoo/agreement.h"
#include "model/zoo/zoo.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

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
  ExpectKernelsOfOnnxRuntime(*basic, file_, folder_ / "optimised.onnx", {{"N", 1}});
}

INSTANTIATE_TEST_SUITE_P(All, BuiltZooModel, testing::Range<size_t>(0, 24), [](const auto& test) {
  return std::string(zoo::ZooModels()[test.param].name);
});

}  // namespace
}  // namespace hase::model

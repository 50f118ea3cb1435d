// Networks that another tool exported (tools/make_exports.py: torchvision through torch.onnx) lower
// as ours do: no unknown operator, the parameters and multiply-adds that torchvision publishes, and
// the kernels that ONNX Runtime runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/csv.h"
#include "base/file.h"
#include "model/lower.h"
#include "model/resolve.h"
#include "model/zoo/agreement.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

CsvTable Exports() {
  return CsvTable::Parse("exports.csv", ReadFile("tests/exports/exports.csv").value(), {},
                         {"model", "params", "gmacs"})
      .value();
}

class Exported : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    table_ = Exports();
    const std::string name(table_->Text(GetParam(), "model"));
    folder_ = fs::temp_directory_path() / ("hase_exports_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    file_ = folder_ / (name + ".onnx");
    const auto bytes = ReadFile("tests/exports/" + name + ".onnx.xz", int64_t{1} << 30);
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_TRUE(WriteFileAtomically(file_, *bytes));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::optional<CsvTable> table_;
  fs::path folder_, file_;
};

TEST_P(Exported, LowersToWhatItsMakersPublish) {
  const auto graph = Lower(file_, {});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto one = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 1);
  ASSERT_TRUE(one) << one.error().message;
  for (const Kernel& kernel : one->kernels) {
    EXPECT_NE(kernel.op_class, OpClass::kOther) << kernel.name << " " << kernel.op;
  }
  const double params = table_->RequiredNumber(GetParam(), "params").value();
  const double gmacs = table_->RequiredNumber(GetParam(), "gmacs").value();
  // The exporter folds batch normalisation, and turns index tables into constants.
  EXPECT_NEAR(static_cast<double>(one->params), params, 0.01 * params);
  EXPECT_NEAR(static_cast<double>(one->macs) * 1e-9, gmacs, 0.02 * gmacs + 0.001);
}

TEST_P(Exported, FusesAsOnnxRuntimeDoesNodeByNode) {
  if (table_->Text(GetParam(), "x_kernels_agree") == "0") {
    GTEST_SKIP() << "ONNX Runtime fuses more here than our rules do: docs/limits.md";
  }
  const auto graph = Lower(file_, {});
  ASSERT_TRUE(graph) << graph.error().message;
  ExpectKernelsOfOnnxRuntime(*graph, file_, folder_ / "optimised.onnx", {{"batch", 1}});
}

INSTANTIATE_TEST_SUITE_P(All, Exported, testing::Range<size_t>(0, Exports().rows()),
                         [](const auto& test) {
                           return std::string(Exports().Text(test.param, "model"));
                         });

}  // namespace
}  // namespace hase::model

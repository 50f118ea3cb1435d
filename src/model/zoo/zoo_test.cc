// The zoo against its published figures, and the kernel lists derived from it against the counting
// rules. Fast: from the committed lists. zoo_slow_test.cc builds the networks anew.
#include "model/zoo/zoo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/csv.h"
#include "base/file.h"
#include "model/library.h"
#include "model/resolve.h"

namespace hase::model {
namespace {

constexpr Runtime kRuntimes[] = {Runtime::kOrtCpu, Runtime::kOrtCuda, Runtime::kTensorRt,
                                 Runtime::kPyTorch};

CsvTable Reference() {
  const auto text = ReadFile("tests/data/cnn_reference.csv");
  auto table = CsvTable::Parse("cnn_reference.csv", text.value(), {}, {"model", "gmacs"});
  return std::move(table.value());
}

class ZooModelTest : public testing::TestWithParam<size_t> {
 protected:
  const CsvTable table_ = Reference();
  const size_t row_ = GetParam();
  const std::string name_{table_.Text(row_, "model")};
  double Figure(std::string_view column) const {
    return table_.RequiredNumber(row_, column).value();
  }
};

bool IsProduct(OpClass c) {
  return c == OpClass::kConv || c == OpClass::kDepthwiseConv || c == OpClass::kGroupedConv ||
         c == OpClass::kGemm;
}

TEST_P(ZooModelTest, MatchesThePublishedParametersAndMultiplyAdds) {
  const auto graph = OpenModel(name_, "data");
  ASSERT_TRUE(graph) << graph.error().message;
  const double params = Figure("trainable_params");
  EXPECT_LE(std::abs(static_cast<double>(graph->params) - params),
            Figure("params_tolerance") * params);
  const auto kernels = Resolve(*graph, Runtime::kOrtCpu, Precision::kFp32, 1);
  ASSERT_TRUE(kernels);
  EXPECT_NEAR(static_cast<double>(kernels->macs) * 1e-9, Figure("gmacs"),
              Figure("macs_tolerance") * Figure("gmacs"));
}

TEST_P(ZooModelTest, ProductFlopsAreTwiceTheMultiplyAddsOnEveryRuntimeAndGrowWithTheBatch) {
  ModelLibrary library("data");
  const auto id = library.Intern({.name = name_, .runtime = {}, .precision = Precision::kFp32});
  ASSERT_TRUE(id) << id.error().message;
  for (const Runtime runtime : kRuntimes) {
    const auto one = library.Kernels(*id, runtime, 1);
    const auto eight = library.Kernels(*id, runtime, 8);
    ASSERT_TRUE(one && eight);
    int64_t products = 0, products_of_eight = 0;
    for (const Kernel& kernel : (*one)->kernels) {
      EXPECT_NE(kernel.op_class, OpClass::kOther) << kernel.name << " " << kernel.op;
      if (IsProduct(kernel.op_class)) products += kernel.flops;
    }
    for (const Kernel& kernel : (*eight)->kernels) {
      if (IsProduct(kernel.op_class)) products_of_eight += kernel.flops;
    }
    EXPECT_NEAR(static_cast<double>(products) * 1e-9, 2 * Figure("gmacs"),
                2 * Figure("macs_tolerance") * Figure("gmacs"))
        << ToString(runtime);
    EXPECT_EQ(products_of_eight, 8 * products) << ToString(runtime);
    EXPECT_EQ((*eight)->total_flops(), 8 * (*one)->total_flops()) << ToString(runtime);
  }
}

TEST_P(ZooModelTest, MemoryTermsAreOrdered) {
  const auto graph = OpenModel(name_, "data");
  ASSERT_TRUE(graph);
  const auto one = ResolveMemory(*graph, Runtime::kOrtCpu, Precision::kFp32, 1);
  const auto eight = ResolveMemory(*graph, Runtime::kOrtCpu, Precision::kFp32, 8);
  ASSERT_TRUE(one && eight);
  EXPECT_EQ(one->weights, eight->weights);
  // Float weights but for folded batch normalisation, which leaves at most a bias per channel.
  EXPECT_NEAR(static_cast<double>(one->weights.value()), 4.0 * static_cast<double>(graph->params),
              0.02 * 4.0 * static_cast<double>(graph->params) + 2e6);
  EXPECT_EQ(eight->input, 8 * one->input);
  EXPECT_EQ(eight->peak_activations, 8 * one->peak_activations);
  EXPECT_GE(one->peak_activations, one->output);
}

INSTANTIATE_TEST_SUITE_P(All, ZooModelTest, testing::Range<size_t>(0, 24), [](const auto& test) {
  return std::string(Reference().Text(test.param, "model"));
});

TEST(Zoo, HasExactlyTheModelsOfTheReferenceTable) {
  const CsvTable table = Reference();
  ASSERT_EQ(table.rows(), zoo::ZooModels().size());
  for (size_t row = 0; row < table.rows(); ++row) {
    EXPECT_NE(zoo::FindZooModel(table.Text(row, "model")), nullptr) << table.Text(row, "model");
  }
  EXPECT_EQ(ZooNames("data").size(), zoo::ZooModels().size());
}

TEST(Zoo, BuildsTheSameBytesEveryTime) {
  const auto* model = zoo::FindZooModel("mobilenet_v3_small");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(zoo::BuildOnnx(*model).value(), zoo::BuildOnnx(*model).value());
}

TEST(Library, GivesOneIdPerEntryAndMemoisesKernels) {
  ModelLibrary library("data");
  const ModelEntry entry{.name = "resnet18", .runtime = {}, .precision = Precision::kFp32};
  const auto first = library.Intern(entry), again = library.Intern(entry);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(*first, *again);
  const auto half =
      library.Intern({.name = "resnet18", .runtime = {}, .precision = Precision::kFp16});
  ASSERT_TRUE(half);
  EXPECT_NE(*first, *half);
  EXPECT_EQ(library.size(), 2u);
  EXPECT_EQ(library.Kernels(*first, Runtime::kOrtCpu, 4).value(),
            library.Kernels(*first, Runtime::kOrtCpu, 4).value());
  EXPECT_EQ(library.Kernels(*first, Runtime::kOrtCpu, 0).error().kind, ErrorKind::kUsage);
}

TEST(Library, NamesTheZooWhenAModelIsUnknown) {
  ModelLibrary library("data");
  const auto id =
      library.Intern({.name = "resnet51", .runtime = {}, .precision = Precision::kFp32});
  ASSERT_FALSE(id);
  EXPECT_NE(id.error().message.find("resnet50"), std::string::npos);
}

}  // namespace
}  // namespace hase::model

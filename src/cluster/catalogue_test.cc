#include "cluster/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/micro_benchmarks.h"

namespace hase::cluster {
namespace {

Catalogue Shipped() {
  auto catalogue = Catalogue::Load();
  if (!catalogue) ADD_FAILURE() << catalogue.error().message;
  return catalogue ? std::move(*catalogue) : Catalogue();
}

TEST(Catalogue, FindsCardsByTheNamesThatDriversReport) {
  const auto catalogue = Shipped();
  const std::pair<const char*, const char*> names[] = {
      {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
      {"NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"},
      {"NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"},
      {"Tesla T4", "T4"},
      {"t4", "T4"},
      {"Tesla-T4-SHARED", "T4"},
      {"NVIDIA-H100-80GB-HBM3", "H100-SXM5-80GB"},
      {"NVIDIA H100 PCIe", "H100-PCIE-80GB"},
      {"NVIDIA H100 NVL", "H100-NVL-94GB"},
      {"NVIDIA H200", "H200-SXM5-141GB"},
      {"Tesla V100-SXM2-16GB", "V100-SXM2-16GB"},
      {"Tesla-V100-PCIE-32GB", "V100-PCIE-32GB"},
      {"V100M32", "V100-SXM2-32GB"},
      {"Tesla P100-PCIE-16GB", "P100-PCIE-16GB"},
      {"NVIDIA GeForce RTX 3090", "RTX-3090"},
      {"GeForce GTX 1080 Ti", "GTX-1080-Ti"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA L4", "L4"},
      {"NVIDIA A10G", "A10G"},
      {"NVIDIA RTX A6000", "RTX-A6000"},
      {"AMD Instinct MI210", "MI210"},
  };
  for (const auto& [reported, name] : names) {
    const auto spec = catalogue.Find(reported);
    ASSERT_TRUE(spec) << reported << ": " << spec.error().message;
    EXPECT_EQ(spec->name, name) << reported;
  }
}

TEST(Catalogue, BareFamilyNamesMeanThePartWithLessMemory) {
  const auto catalogue = Shipped();
  EXPECT_EQ(catalogue.Find("A100")->memory, GiB(40));
  EXPECT_EQ(catalogue.Find("V100")->memory, GiB(16));
}

TEST(Catalogue, UnknownNameListsTheNearest) {
  const auto spec = Shipped().Find("A100-SXM4-81GB");
  ASSERT_FALSE(spec);
  EXPECT_NE(spec.error().message.find("A100-SXM4-80GB"), std::string::npos) << spec.error().message;
}

TEST(Catalogue, HasEnoughCardsAndSaneFigures) {
  const auto catalogue = Shipped();
  const auto& specs = catalogue.specs();
  EXPECT_GE(
      std::count_if(specs.begin(), specs.end(), [](const auto& s) { return s.vendor == "NVIDIA"; }),
      30);
  EXPECT_GE(std::count_if(specs.begin(), specs.end(), [](const auto& s) { return s.verified; }),
            18);
  for (const auto& spec : specs) {
    SCOPED_TRACE(spec.name);
    EXPECT_GT(spec.sm_count, 0);
    EXPECT_GT(spec.memory.value(), 0);
    EXPECT_GT(spec.bandwidth_gb_s, 100);
    EXPECT_GT(spec.l2.value(), 0);
    EXPECT_GE(spec.boost_clock_mhz, spec.base_clock_mhz);
    // cores × 2 × clock agrees with the stated fp32 peak, except where matrix cores do fp32.
    const double cores = spec.sm_count * spec.cores_per_sm;
    const double peak = cores * 2 * spec.boost_clock_mhz * 1e-6;
    if (spec.vendor == "NVIDIA") {
      EXPECT_NEAR(spec.peak_tflops[0] / peak, 1, 0.05);
    }
    EXPECT_GE(spec.peak_tflops[static_cast<size_t>(model::Precision::kFp16)], spec.peak_tflops[0]);
  }
}

TEST(Catalogue, KnownTraps) {
  const auto catalogue = Shipped();
  EXPECT_EQ(catalogue.Find("P4")->sm_count, 20);
  EXPECT_EQ(catalogue.Find("P4")->cores_per_sm, 128);
  EXPECT_EQ(catalogue.Find("K80")->sm_count, 13);  // one GPU of the two on the board
  EXPECT_EQ(catalogue.Find("K80")->memory, GiB(12));
  EXPECT_EQ(catalogue.Find("M60")->memory, GiB(8));
  EXPECT_EQ(catalogue.Find("L4")->sm_count, 58);
  EXPECT_EQ(catalogue.Find("L40S")->l2, MiB(96));
  EXPECT_EQ(catalogue.Find("A100-PCIE-80GB")->l2, MiB(40));
}

TEST(Catalogue, ErrorsNameThePlace) {
  const auto bad = Catalogue::Parse("c.csv", "name,alias\nT4,x\n");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("c.csv"), std::string::npos);
}

TEST(Mig, AnInstanceIsAPartOfTheCard) {
  const auto catalogue = Shipped();
  const auto part = catalogue.Find("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb");
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->name, "A100-SXM4-80GB MIG 3g.40gb");
  EXPECT_EQ(part->sm_count, 42);
  EXPECT_EQ(part->memory, GiB(40));
  EXPECT_NEAR(part->bandwidth_gb_s, 2039 / 2.0, 1);
  EXPECT_NEAR(part->peak_tflops[0], 19.5 * 42 / 108, 0.01);
  EXPECT_FALSE(catalogue.Find("T4 MIG 1g.5gb"));
  EXPECT_FALSE(catalogue.Find("A100-SXM4-80GB MIG 9g.80gb"));
  EXPECT_FALSE(catalogue.Find("A100-SXM4-80GB MIG lots"));
}

TEST(Modes, FollowWhatTheCardCanEnforce) {
  const auto catalogue = Shipped();
  const auto has = [&](const char* name, ShareMode mode) {
    const auto modes = EnforceableModes(*catalogue.Find(name));
    return std::find(modes.begin(), modes.end(), mode) != modes.end();
  };
  EXPECT_FALSE(has("P100", ShareMode::kMps));
  EXPECT_TRUE(has("V100", ShareMode::kMps));
  EXPECT_FALSE(has("V100", ShareMode::kMig));
  EXPECT_TRUE(has("A100", ShareMode::kMig));
  EXPECT_FALSE(has("A10", ShareMode::kMig));
  EXPECT_TRUE(has("H100", ShareMode::kMig));
}

TEST(EstimatedMicroBenchmarks, StayBelowPeaksAndOrderCardsByStrength) {
  const auto catalogue = Shipped();
  for (const auto& spec : catalogue.specs()) {
    SCOPED_TRACE(spec.name);
    const auto bench = EstimateMicroBenchmarks(spec);
    EXPECT_FALSE(bench.measured);
    const double peak = spec.peak_tflops[0] * 1000;
    EXPECT_GT(bench.gemm_small, 0);
    EXPECT_LT(bench.gemm_small, bench.gemm_medium);
    EXPECT_LT(bench.gemm_medium, bench.gemm_large);
    EXPECT_LT(bench.gemm_large, peak);
    EXPECT_LT(bench.conv3x3, 2.25 * peak);
    EXPECT_LT(bench.conv1x1, peak);
    EXPECT_LT(bench.depthwise, bench.conv3x3);
    EXPECT_LT(bench.copy_large, spec.bandwidth_gb_s * (spec.l2 >= MiB(512) ? 3 : 1));
    EXPECT_GT(bench.launch_us, 0);
  }
  const auto t4 = EstimateMicroBenchmarks(*catalogue.Find("T4"));
  const auto a100 = EstimateMicroBenchmarks(*catalogue.Find("A100-SXM4-80GB"));
  EXPECT_GT(a100.gemm_large, 1.8 * t4.gemm_large);
  EXPECT_GT(a100.copy_large, 4 * t4.copy_large);
}

}  // namespace
}  // namespace hase::cluster

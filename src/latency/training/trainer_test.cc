// Trains on a small sample of the measured data, where it is, and scores the test bucket; and what
// needs no data: digests, calibration, buckets.
#include "latency/training/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <unordered_set>

#include "base/file.h"
#include "base/rng.h"
#include "latency/calibration.h"
#include "latency/data/shapes.h"
#include "latency/training/evaluation.h"

namespace hase::latency {
namespace {

TEST(Digests, ArePackedAndReadBack) {
  const std::vector<uint32_t> digests = {0, 1, 127, 128, 300, 70000, 0x7FFFFFFF, 0xFFFFFFFF};
  const auto back = UnpackDigests(PackDigests(digests));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, digests);
  EXPECT_FALSE(UnpackDigests("\xFF"));
  EXPECT_FALSE(UnpackDigests("\xFF\xFF\xFF\xFF\xFF\xFF"));
}

TEST(Buckets, SiblingsOfALayerShareOne) {
  ConvShape shape{.batch = 1, .in_channels = 64, .height = 56, .width = 56, .out_channels = 128};
  shape.window.kernel = {3, 3};
  const auto one = ConvKernel(shape);
  shape.batch = 128;
  shape.precision = model::Precision::kFp16;
  shape.fused_add = true;
  EXPECT_EQ(BucketText(one), BucketText(ConvKernel(shape)));
  shape.out_channels = 129;
  EXPECT_NE(BucketText(one), BucketText(ConvKernel(shape)));
}

std::vector<CalibrationPoint> Points(int count, double noise, Rng& rng) {
  std::vector<CalibrationPoint> points;
  for (int i = 0; i < count; ++i) {
    CalibrationPoint p;
    for (double& v : p.physics) v = rng.Uniform(-1, 1);
    p.log_error = 0.3 + 0.2 * p.physics[0] + noise * rng.Normal();
    points.push_back(p);
  }
  return points;
}

TEST(Correction, FindsOffsetAndSlopeDespiteOutliers) {
  Rng rng(7);
  auto points = Points(60, 0.02, rng);
  points[3].log_error = 5;
  points[40].log_error = -4;
  const auto correction = Correction::Fit(points);
  for (const auto& p : Points(50, 0, rng)) EXPECT_NEAR(correction.At(p), p.log_error, 0.08);
}

TEST(Correction, WithoutPointsChangesNothing) { EXPECT_EQ(Correction::Fit({}).At({}), 0); }

// What the host adds to a convolution grew while NeuSight's cards were measured.
TEST(Tables, AConvolutionKnowsItsPlaceInItsCardsSession) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("session{}", getpid()) / "neusight";
  std::filesystem::create_directories(folder);
  std::string text = "gpu,batch,in_ch,out_ch,kernel,in_hw,stride,pad,latency_ms\n";
  for (int i = 0; i < 4; ++i) text += fmt::format("Tesla T4,{},8,8,3,9,1,1,0.5\n", i + 1);
  for (int i = 0; i < 2; ++i) text += fmt::format("Tesla P4,{},8,8,3,9,1,1,0.5\n", i + 1);
  ASSERT_TRUE(WriteFileAtomically(folder / "conv2d_fp32.csv", text));
  const std::vector<std::filesystem::path> paths = {folder};
  const auto known = LoadTables(paths, {}), unknown = LoadTables(paths, {}, {}, false);
  std::filesystem::remove_all(folder.parent_path());
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_TRUE(unknown) << unknown.error().message;
  ASSERT_EQ(known->tables.size(), 1u);
  const auto& rows = known->tables[0].rows;
  const std::vector<float> places = {0, 0.25, 0.5, 0.75, 0, 0.5};
  ASSERT_EQ(rows.size(), places.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].session_place, places[i]);
    const auto& fresh = unknown->tables[0].rows[i];
    EXPECT_NEAR(rows[i].roofline_us - fresh.roofline_us, 300 * places[i], 1e-3);
    EXPECT_EQ(fresh.session_place, 0);
  }
}

TEST(Trainer, ASmallSampleBeatsTheRooflineOnTheTestBucket) {
  const std::filesystem::path data = "../shared/data/kernels/neusight";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not here";
  const std::vector<std::filesystem::path> paths = {data};
  const std::vector<std::string> sets = {"neusight"};
  auto tables = LoadTables(paths, sets);
  ASSERT_TRUE(tables) << tables.error().message;
  std::erase_if(tables->tables, [](const Table& t) { return t.family != Family::kConv; });
  ASSERT_EQ(tables->tables.size(), 1u);
  const TrainOptions options{.threads = 1, .sample = 3000, .unseen_intervals = false};
  const auto model = TrainModel(*tables, options, [](const std::string&) {});
  ASSERT_TRUE(model) << model.error().message;
  const auto digests = UsedDigests(*tables);
  const std::unordered_set<uint32_t> used(digests.begin(), digests.end());
  const auto result = Evaluate(*tables, *model, used, EvaluateOptions{}, [](const std::string&) {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->scored.size(), 1000u);
  for (const auto& s : result->scored) {
    ASSERT_FALSE(used.contains(tables->tables[s.table].rows[s.row].digest)) << "a trained row";
  }
  for (const auto& g : result->groups) {
    EXPECT_LT(g.mape, 0.20) << g.device;
    EXPECT_GT(g.coverage, 0.6) << g.device;
  }
}

}  // namespace
}  // namespace hase::latency

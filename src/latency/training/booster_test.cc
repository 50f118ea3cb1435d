#include "latency/training/booster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/rng.h"

namespace hase::latency {
namespace {

constexpr size_t kWidth = 6;

struct Problem {
  std::vector<float> rows, labels;
  Problem(uint64_t seed, size_t count) {
    Rng rng(seed);
    for (size_t i = 0; i < count; ++i) {
      float x[kWidth];
      for (float& v : x) v = static_cast<float>(rng.Uniform(-2, 2));
      rows.insert(rows.end(), x, x + kWidth);
      labels.push_back(std::sin(3 * x[0]) + (x[1] > 0.3F ? x[2] : -x[3]) +
                       static_cast<float>(0.05 * rng.Normal()));
    }
  }
};

BoostOptions Small() {
  return {.trees = 60, .depth = 6, .learning_rate = 0.2, .delta = 0.1, .threads = 1};
}

TEST(Booster, TheWalkerAgreesWithXgboost) {
  const Problem train(1, 4000), probe(2, 500);
  std::vector<float> theirs, ours(500);
  const auto trees =
      TrainTreesAndProbe(kWidth, train.rows, train.labels, Small(), probe.rows, theirs);
  ASSERT_TRUE(trees) << trees.error().message;
  trees->Predict(probe.rows, ours);
  ASSERT_EQ(theirs.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-6);
}

TEST(Booster, LearnsTheFunction) {
  const Problem train(1, 4000), probe(2, 500);
  const auto trees = TrainTrees(kWidth, train.rows, train.labels, {}, Small());
  ASSERT_TRUE(trees) << trees.error().message;
  std::vector<float> ours(500);
  trees->Predict(probe.rows, ours);
  double error = 0;
  for (size_t i = 0; i < ours.size(); ++i) error += std::abs(ours[i] - probe.labels[i]);
  EXPECT_LT(error / 500, 0.25);
}

TEST(Booster, SameBytesAtAnyNumberOfThreads) {
  const Problem train(3, 5000);
  auto options = Small();
  const auto one = TrainTrees(kWidth, train.rows, train.labels, {}, options);
  options.threads = 3;
  const auto three = TrainTrees(kWidth, train.rows, train.labels, {}, options);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(one->Serialise(), three->Serialise());
}

TEST(Trees, WhatIsWrittenIsReadBack) {
  const Problem train(4, 1000);
  const auto trees = TrainTrees(kWidth, train.rows, train.labels, {}, Small());
  ASSERT_TRUE(trees);
  const std::string bytes = trees->Serialise();
  const auto back = Trees::Parse(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->Serialise(), bytes);
  std::vector<float> a(1000), b(1000);
  trees->Predict(train.rows, a);
  back->Predict(train.rows, b);
  EXPECT_EQ(a, b);
}

TEST(Booster, AQuantileIsExceededAsOftenAsItSays) {
  const Problem train(6, 6000), probe(7, 3000);
  Rng rng(8);
  // Labels whose noise grows with the first feature.
  const auto noisy = [&](const Problem& p) {
    std::vector<float> labels;
    for (size_t i = 0; i < p.labels.size(); ++i) {
      const double width = 0.1 + std::abs(p.rows[i * kWidth]);
      labels.push_back(static_cast<float>(width * rng.Normal()));
    }
    return labels;
  };
  const auto labels = noisy(train), fresh = noisy(probe);
  auto options = Small();
  options.quantile = 0.8;
  options.min_child_weight = 50;
  options.depth = 3;
  const auto trees = TrainTrees(kWidth, train.rows, labels, {}, options);
  ASSERT_TRUE(trees);
  std::vector<float> bound(3000);
  trees->Predict(probe.rows, bound);
  int below = 0;
  for (size_t i = 0; i < fresh.size(); ++i) below += fresh[i] <= bound[i] ? 1 : 0;
  EXPECT_NEAR(below / 3000.0, 0.8, 0.03);
}

TEST(Trees, EndingsWalkedTogetherGiveTheSameBits) {
  const Problem train(9, 4000), probe(10, 100);
  const auto trees = TrainTrees(kWidth, train.rows, train.labels, {}, Small());
  ASSERT_TRUE(trees);
  constexpr size_t kShared = kWidth - 2;
  std::vector<std::vector<float>> endings;
  for (size_t e = 0; e < 9; ++e) {
    const auto from = train.rows.begin() + static_cast<int64_t>(e * kWidth + kShared);
    endings.emplace_back(from, from + 2);
  }
  std::vector<float> together(100 * endings.size()), alone(100);
  trees->PredictEndings(probe.rows, kShared, endings, together);
  for (size_t e = 0; e < endings.size(); ++e) {
    auto rows = probe.rows;
    for (size_t r = 0; r < 100; ++r) {
      std::ranges::copy(endings[e], rows.begin() + static_cast<int64_t>(r * kWidth + kShared));
    }
    trees->Predict(rows, alone);
    for (size_t r = 0; r < 100; ++r) ASSERT_EQ(together[r * endings.size() + e], alone[r]);
  }
}

TEST(Trees, PackedOnesAreUnpackedWhenAskedFor) {
  const Problem train(11, 1000);
  const auto trees = TrainTrees(kWidth, train.rows, train.labels, {}, Small());
  ASSERT_TRUE(trees);
  const auto packed = Compress(trees->Serialise());
  ASSERT_TRUE(packed);
  const PackedTrees late("a test", *packed, kWidth);
  EXPECT_FALSE(late.empty());
  EXPECT_EQ(late->Serialise(), trees->Serialise());
  EXPECT_TRUE(PackedTrees().empty());
}

TEST(Trees, DamagedBytesAreRefusedOrHarmless) {
  const Problem train(5, 300);
  const auto trees = TrainTrees(kWidth, train.rows, train.labels, {}, Small());
  ASSERT_TRUE(trees);
  const std::string bytes = trees->Serialise();
  for (size_t cut = 0; cut < bytes.size(); cut += 7) {
    EXPECT_FALSE(Trees::Parse(bytes.substr(0, cut))) << cut;
  }
  std::vector<float> out(300);
  for (size_t at = 0; at < std::min<size_t>(bytes.size(), 600); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    if (const auto parsed = Trees::Parse(flipped); parsed && parsed->feature_count() == kWidth) {
      parsed->Predict(train.rows, out);  // must end
    }
  }
}

}  // namespace
}  // namespace hase::latency

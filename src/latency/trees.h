// Trees: a gradient-boosted ensemble as flat arrays, walked without any library.
//
// Histogram training only ever splits at a few hundred thresholds per feature, so a row is first
// turned into small integers (how many thresholds of that feature lie at or below its value); after
// that every split is one comparison of integers. Children lie side by side. Leaves are added in
// float, in tree order, as XGBoost does, so that answers agree with it (within 1e-6; tested).
//
// Stored: thresholds per feature, then per node one byte of feature and one of threshold, then the
// leaves. Left out: missing values (features are always finite) and categories.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hase::latency {

class Trees {
 public:
  // One tree as a trainer describes it: node 0 is the root; left < 0 marks a leaf, whose value
  // stands in `value`; else rows with feature < value go left.
  struct Node {
    int32_t left = -1, right = -1;
    uint32_t feature = 0;
    float value = 0;
  };

  // `feature_count` of the rows. Fails if a feature has more than 255 thresholds, there are more
  // than 255 features, or a child index is out of range.
  static Result<Trees> Build(size_t feature_count, float base,
                             std::span<const std::vector<Node>> trees);
  // As Serialise wrote it.
  static Result<Trees> Parse(std::string_view bytes);
  std::string Serialise() const;

  size_t feature_count() const { return thresholds_.size(); }
  size_t tree_count() const { return roots_.size(); }
  size_t leaf_count() const { return leaf_count_; }

  // One sum per row; `rows` holds feature_count() floats each, row after row.
  void Predict(std::span<const float> rows, std::span<float> out) const;

 private:
  // Inner node: children at `child` and `child + 1`, left if bin(feature) <= threshold. A leaf has
  // feature kLeaf and its value's bits in `child`.
  struct Flat {
    uint16_t feature = 0;
    uint16_t threshold = 0;
    uint32_t child = 0;
  };
  static constexpr uint16_t kLeaf = 0xFFFF;

  float base_ = 0;
  size_t leaf_count_ = 0;
  std::vector<std::vector<float>> thresholds_;  // per feature, ascending
  std::vector<Flat> nodes_;
  std::vector<uint32_t> roots_;
};

}  // namespace hase::latency

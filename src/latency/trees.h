// Trees: a gradient-boosted ensemble as flat arrays, walked without any library.
//
// Histogram training only ever splits at a few hundred thresholds per feature, so a row is first
// turned into small integers (how many thresholds of that feature lie at or below its value); after
// that every split is one comparison of bytes. A node is four bytes, children lie side by side, and
// subtrees of three levels share a cache line; rows go down a tree several at a time. Leaves are
// added in float, in tree order, as XGBoost does, so that answers agree with it (within 1e-6;
// tested).
//
// Stored: thresholds per feature, then per node one byte of feature and one of threshold, then the
// leaves. Left out: missing values (features are always finite) and categories.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_pages.h"
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
  // than 255 features, a tree has more than 32,000 nodes, or a child index is out of range.
  static Result<Trees> Build(size_t feature_count, float base,
                             std::span<const std::vector<Node>> trees);
  // As Serialise wrote it.
  static Result<Trees> Parse(std::string_view bytes);
  std::string Serialise() const;

  size_t feature_count() const { return thresholds_.size(); }
  size_t tree_count() const { return trees_.size(); }
  size_t leaf_count() const { return leaf_count_; }

  // One sum per row; `rows` holds feature_count() floats each, row after row.
  void Predict(std::span<const float> rows, std::span<float> out) const;

  // Every row under each of several endings: the features from `shared` on replaced by
  // `endings[e]`. `out` holds endings.size() sums a row, the same bits that Predict would give.
  // Trees are walked once for all endings that agree so far. At most kMaxEndings endings.
  static constexpr size_t kMaxEndings = 32;
  void PredictEndings(std::span<const float> rows, size_t shared,
                      std::span<const std::vector<float>> endings, std::span<float> out) const;

 private:
  // Inner node: children at `child` and `child + 1` of its tree, left if bin <= threshold. A leaf
  // is its own child whatever the bin; its value lies at the same place in leaves_.
  struct Flat {
    uint8_t feature = 0;
    uint8_t threshold = kAlways;
    uint16_t child = 0;
  };
  static constexpr uint8_t kAlways = 255;  // no bin is greater
  struct Tree {
    uint32_t first = 0;
    uint32_t depth = 0;
  };
  struct Plain;  // a tree breadth first, as it is stored

  bool IsLeaf(const Tree& tree, uint32_t at) const {
    return nodes_[tree.first + at].threshold == kAlways;
  }
  void Add(const Plain& tree);
  uint8_t Bin(size_t feature, float value) const;

  float base_ = 0;
  size_t leaf_count_ = 0;
  std::vector<std::vector<float>> thresholds_;  // per feature, ascending
  std::vector<Flat, HugePages<Flat>> nodes_;
  std::vector<float, HugePages<float>> leaves_;  // beside nodes_
  std::vector<Tree> trees_;
};

// Trees as .xz data, unpacked when first asked for (from any thread), or trees at hand. Copies
// share them.
class PackedTrees {
 public:
  PackedTrees();
  PackedTrees(Trees trees);  // NOLINT(google-explicit-constructor): trees are packed trees
  // `name`: of the file, for the message if the data turns out not to be trees over so many
  // features. That late it can only end the program (status 1): callers check what they can before.
  PackedTrees(std::string name, std::string packed, size_t features);
  bool empty() const;
  const Trees& get() const;
  const Trees* operator->() const { return &get(); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hase::latency

#include "latency/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace hase::latency {
namespace {

constexpr std::string_view kMagic = "HASETRE1";

void PutWord(std::string& out, uint32_t v) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>((v >> (8 * i)) & 0xFF);
}

// Reads little-endian words; running past the end gives zeros and a failed flag.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint32_t Byte() {
    if (at_ >= bytes_.size()) {
      failed_ = true;
      return 0;
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  uint32_t Word(int count = 4) {
    uint32_t v = 0;
    for (int i = 0; i < count; ++i) v |= Byte() << (8 * i);
    return v;
  }
  float Float() { return std::bit_cast<float>(Word()); }
  size_t left() const { return bytes_.size() - at_; }
  bool failed() const { return failed_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<Trees> Trees::Build(size_t feature_count, float base,
                           std::span<const std::vector<Node>> trees) {
  if (feature_count > 255) return Invalid("trees: more than 255 features");
  Trees out;
  out.base_ = base;
  out.thresholds_.resize(feature_count);
  for (const auto& tree : trees) {
    for (const auto& node : tree) {
      if (node.left < 0) continue;
      const auto size = static_cast<int32_t>(tree.size());
      if (node.feature >= feature_count || node.left >= size || node.right < 0 ||
          node.right >= size) {
        return Invalid("trees: a node points outside its tree");
      }
      out.thresholds_[node.feature].push_back(node.value);
    }
  }
  for (auto& list : out.thresholds_) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    if (list.size() > 255) return Invalid("trees: more than 255 thresholds for a feature");
  }
  for (const auto& tree : trees) {
    if (tree.empty()) return Invalid("trees: an empty tree");
    out.roots_.push_back(static_cast<uint32_t>(out.nodes_.size()));
    out.nodes_.emplace_back();
    // Breadth first, each pair of children side by side.
    std::vector<std::pair<int32_t, size_t>> queue = {{0, out.nodes_.size() - 1}};
    for (size_t next = 0; next < queue.size(); ++next) {
      const auto [index, at] = queue[next];
      const Node& node = tree[static_cast<size_t>(index)];
      if (node.left < 0) {
        out.nodes_[at] = {kLeaf, 0, std::bit_cast<uint32_t>(node.value)};
        ++out.leaf_count_;
        continue;
      }
      if (queue.size() > tree.size()) return Invalid("trees: a cycle");
      const auto& list = out.thresholds_[node.feature];
      const auto rank = std::ranges::lower_bound(list, node.value) - list.begin();
      const auto child = static_cast<uint32_t>(out.nodes_.size());
      out.nodes_[at] = {static_cast<uint16_t>(node.feature), static_cast<uint16_t>(rank), child};
      out.nodes_.resize(out.nodes_.size() + 2);
      queue.emplace_back(node.left, child);
      queue.emplace_back(node.right, child + 1);
    }
  }
  return out;
}

// Streams of like bytes lie together, so that they compress well.
std::string Trees::Serialise() const {
  std::string out(kMagic);
  PutWord(out, std::bit_cast<uint32_t>(base_));
  PutWord(out, static_cast<uint32_t>(thresholds_.size()));
  PutWord(out, static_cast<uint32_t>(roots_.size()));
  PutWord(out, static_cast<uint32_t>(nodes_.size()));
  for (const auto& list : thresholds_) {
    PutWord(out, static_cast<uint32_t>(list.size()));
    for (const float t : list) PutWord(out, std::bit_cast<uint32_t>(t));
  }
  std::string features, bins, leaves[4];
  for (const Flat& node : nodes_) {
    features += static_cast<char>(node.feature == kLeaf ? 0xFF : node.feature);
    if (node.feature != kLeaf) {
      bins += static_cast<char>(node.threshold);
      continue;
    }
    for (int i = 0; i < 4; ++i) {
      leaves[i] += static_cast<char>((node.child >> (8 * i)) & 0xFF);
    }
  }
  return out + features + bins + leaves[3] + leaves[2] + leaves[1] + leaves[0];
}

Result<Trees> Trees::Parse(std::string_view bytes) {
  const auto damaged = [](std::string_view what) {
    return Invalid("trees: damaged data: " + std::string(what) + "; train again (hase train)");
  };
  if (!bytes.starts_with(kMagic)) return damaged("wrong magic");
  Reader in(bytes.substr(kMagic.size()));
  Trees out;
  out.base_ = in.Float();
  const size_t features = in.Word(), trees = in.Word(), count = in.Word();
  if (features > 255) return damaged("header");
  out.thresholds_.resize(features);
  for (auto& list : out.thresholds_) {
    const size_t length = in.Word();
    if (length > 255 || in.left() < 4 * length) return damaged("thresholds");
    for (size_t i = 0; i < length; ++i) list.push_back(in.Float());
  }
  if (in.failed() || in.left() < count || trees > count) return damaged("node count");
  out.nodes_.resize(count);
  size_t inner = 0, expected = 0;
  for (auto& node : out.nodes_) {
    const uint32_t feature = in.Byte();
    node.feature = feature == 0xFF ? kLeaf : static_cast<uint16_t>(feature);
    if (feature != 0xFF && feature >= features) return damaged("feature");
    inner += feature == 0xFF ? 0 : 1;
  }
  const size_t leaves = count - inner;
  if (in.left() != inner + 4 * leaves) return damaged("length");
  // A tree ends where all its children have come; the next node is a root.
  for (size_t i = 0; i < count; ++i) {
    if (i == expected) {
      out.roots_.push_back(static_cast<uint32_t>(i));
      ++expected;
    }
    Flat& node = out.nodes_[i];
    if (node.feature == kLeaf) continue;
    node.threshold = static_cast<uint16_t>(in.Byte());
    node.child = static_cast<uint32_t>(expected);
    expected += 2;
  }
  if (expected != count || out.roots_.size() != trees) return damaged("tree structure");
  std::vector<uint32_t> values(leaves, 0);
  for (int i = 3; i >= 0; --i) {
    for (auto& v : values) v |= in.Byte() << (8 * i);
  }
  for (auto& node : out.nodes_) {
    if (node.feature != kLeaf) continue;
    node.child = values[out.leaf_count_++];
  }
  return out;
}

void Trees::Predict(std::span<const float> rows, std::span<float> out) const {
  const size_t width = thresholds_.size();
  HASE_CHECK(rows.size() == width * out.size(), "{} floats for {} rows of {}", rows.size(),
             out.size(), width);
  std::vector<uint16_t> bins(rows.size());
  for (size_t f = 0; f < width; ++f) {
    const auto& list = thresholds_[f];
    for (size_t r = 0; r < out.size(); ++r) {
      const auto at = std::upper_bound(list.begin(), list.end(), rows[r * width + f]);
      bins[r * width + f] = static_cast<uint16_t>(at - list.begin());
    }
  }
  std::ranges::fill(out, base_);
  const Flat* const nodes = nodes_.data();
  // Several rows go down a tree side by side, so that their loads overlap.
  constexpr size_t kLanes = 8;
  for (const uint32_t root : roots_) {
    for (size_t first = 0; first < out.size(); first += kLanes) {
      const size_t lanes = std::min(kLanes, out.size() - first);
      const Flat* at[kLanes];
      for (size_t j = 0; j < lanes; ++j) at[j] = nodes + root;
      for (bool inner = true; inner;) {
        inner = false;
        for (size_t j = 0; j < lanes; ++j) {
          const Flat& node = *at[j];
          if (node.feature == kLeaf) continue;
          const uint16_t bin = bins[(first + j) * width + node.feature];
          at[j] = nodes + node.child + (bin > node.threshold ? 1 : 0);
          inner = true;
        }
      }
      for (size_t j = 0; j < lanes; ++j) out[first + j] += std::bit_cast<float>(at[j]->child);
    }
  }
}

}  // namespace hase::latency

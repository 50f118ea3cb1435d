#include "latency/trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace hase::latency {
namespace {

constexpr std::string_view kMagic = "HASETRE1";
constexpr uint8_t kStoredLeaf = 0xFF;
constexpr size_t kMaxFeatures = 255, kMaxThresholds = 255, kMaxNodes = 32'000;

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
  std::string_view Take(size_t count) {
    const auto out = bytes_.substr(std::min(at_, bytes_.size()), count);
    failed_ |= out.size() != count;
    at_ += out.size();
    return out;
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

// Breadth first, each pair of children side by side: feature kPlainLeaf marks a leaf.
struct Trees::Plain {
  static constexpr uint16_t kPlainLeaf = 0xFFFF;
  struct Node {
    uint16_t feature = kPlainLeaf;
    uint8_t threshold = 0;
    uint32_t child = 0;
    float value = 0;
  };
  std::vector<Node> nodes;
};

// Lays a tree out in blocks of a cache line: from the first pair of a block breadth first until
// the line is full; what hangs below starts blocks of its own.
void Trees::Add(const Plain& plain) {
  constexpr size_t kLine = 64 / sizeof(Flat);
  const size_t first = (nodes_.size() + kLine - 1) / kLine * kLine;
  nodes_.resize(first);
  std::vector<uint32_t> place(plain.nodes.size(), 0);
  // A block starts with the root alone or with the children of a node.
  std::vector<std::pair<uint32_t, uint32_t>> waiting = {{0, 1}};  // plain index, how many nodes
  std::vector<std::pair<uint32_t, uint32_t>> block;
  size_t next = 0;
  while (!waiting.empty()) {
    block.assign(1, waiting.back());
    waiting.pop_back();
    size_t room = kLine - next % kLine;
    if (room < kLine / 2) {  // a short rest of a line is left empty
      next += room;
      room = kLine;
    }
    for (size_t b = 0; b < block.size(); ++b) {
      const auto [index, count] = block[b];
      if (room < count) {
        waiting.push_back(block[b]);
        continue;
      }
      for (uint32_t i = index; i < index + count; ++i) {
        place[i] = static_cast<uint32_t>(next++);
        if (plain.nodes[i].feature != Plain::kPlainLeaf)
          block.emplace_back(plain.nodes[i].child, 2);
      }
      room -= count;
    }
  }
  nodes_.resize(first + next);
  leaves_.resize(first + next, 0);
  std::vector<uint32_t> depth(plain.nodes.size(), 0);
  Tree tree{static_cast<uint32_t>(first), 0};
  for (size_t i = 0; i < plain.nodes.size(); ++i) {
    const auto& node = plain.nodes[i];
    Flat& flat = nodes_[first + place[i]];
    if (node.feature == Plain::kPlainLeaf) {
      flat = {0, kAlways, static_cast<uint16_t>(place[i])};
      leaves_[first + place[i]] = node.value;
      ++leaf_count_;
      continue;
    }
    flat = {static_cast<uint8_t>(node.feature), node.threshold,
            static_cast<uint16_t>(place[node.child])};
    depth[node.child] = depth[node.child + 1] = depth[i] + 1;
    tree.depth = std::max(tree.depth, depth[i] + 1);
  }
  trees_.push_back(tree);
}

Result<Trees> Trees::Build(size_t feature_count, float base,
                           std::span<const std::vector<Node>> trees) {
  if (feature_count > kMaxFeatures) return Invalid("trees: more than 255 features");
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
    if (list.size() > kMaxThresholds) {
      return Invalid("trees: more than 255 thresholds for a feature");
    }
  }
  for (const auto& tree : trees) {
    if (tree.empty()) return Invalid("trees: an empty tree");
    if (tree.size() > kMaxNodes) return Invalid("trees: a tree of more than 32,000 nodes");
    Plain plain;
    plain.nodes.emplace_back();
    std::vector<std::pair<int32_t, size_t>> queue = {{0, 0}};
    for (size_t next = 0; next < queue.size(); ++next) {
      const auto [index, at] = queue[next];
      const Node& node = tree[static_cast<size_t>(index)];
      if (node.left < 0) {
        plain.nodes[at].value = node.value;
        continue;
      }
      if (queue.size() > tree.size()) return Invalid("trees: a cycle");
      const auto& list = out.thresholds_[node.feature];
      const auto rank = std::ranges::lower_bound(list, node.value) - list.begin();
      const auto child = plain.nodes.size();
      plain.nodes[at] = {static_cast<uint16_t>(node.feature), static_cast<uint8_t>(rank),
                         static_cast<uint32_t>(child), 0};
      plain.nodes.resize(child + 2);
      queue.emplace_back(node.left, child);
      queue.emplace_back(node.right, child + 1);
    }
    out.Add(plain);
  }
  return out;
}

// Streams of like bytes lie together, so that they compress well.
std::string Trees::Serialise() const {
  std::string out(kMagic);
  PutWord(out, std::bit_cast<uint32_t>(base_));
  PutWord(out, static_cast<uint32_t>(thresholds_.size()));
  PutWord(out, static_cast<uint32_t>(trees_.size()));
  PutWord(out, static_cast<uint32_t>(2 * leaf_count_ - trees_.size()));  // all nodes
  for (const auto& list : thresholds_) {
    PutWord(out, static_cast<uint32_t>(list.size()));
    for (const float t : list) PutWord(out, std::bit_cast<uint32_t>(t));
  }
  std::string features, bins, leaves[4];
  std::vector<uint32_t> queue;
  for (const Tree& tree : trees_) {
    queue.assign(1, 0);
    for (size_t next = 0; next < queue.size(); ++next) {
      const uint32_t at = queue[next];
      const Flat& node = nodes_[tree.first + at];
      if (IsLeaf(tree, at)) {
        features += static_cast<char>(kStoredLeaf);
        const auto bits = std::bit_cast<uint32_t>(leaves_[tree.first + at]);
        for (int i = 0; i < 4; ++i) leaves[i] += static_cast<char>((bits >> (8 * i)) & 0xFF);
        continue;
      }
      features += static_cast<char>(node.feature);
      bins += static_cast<char>(node.threshold);
      queue.push_back(node.child);
      queue.push_back(node.child + 1U);
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
  if (features > kMaxFeatures) return damaged("header");
  out.thresholds_.resize(features);
  for (auto& list : out.thresholds_) {
    const size_t length = in.Word();
    if (length > kMaxThresholds || in.left() < 4 * length) return damaged("thresholds");
    for (size_t i = 0; i < length; ++i) list.push_back(in.Float());
  }
  if (in.failed() || in.left() < count || trees > count) return damaged("node count");
  const std::string_view kinds = in.Take(count);
  size_t inner = 0;
  for (const char c : kinds) {
    const auto feature = static_cast<uint8_t>(c);
    if (feature != kStoredLeaf && feature >= features) return damaged("feature");
    inner += feature == kStoredLeaf ? 0 : 1;
  }
  const size_t leaves = count - inner;
  if (in.left() != inner + 4 * leaves) return damaged("length");
  const std::string_view bins = in.Take(inner), values = in.Take(4 * leaves);
  out.nodes_.reserve(count + count / 8);
  out.leaves_.reserve(count + count / 8);
  // A tree ends where all its children have come; the next node is a root.
  Plain plain;
  size_t bin = 0, leaf = 0;
  for (size_t i = 0; i < count;) {
    plain.nodes.clear();
    size_t expected = 1;
    for (; plain.nodes.size() < expected; ++i) {
      if (i == count) return damaged("tree structure");
      auto& node = plain.nodes.emplace_back();
      const auto feature = static_cast<uint8_t>(kinds[i]);
      if (feature == kStoredLeaf) {
        uint32_t bits = 0;
        for (size_t b = 0; b < 4; ++b) {
          bits = bits << 8 | static_cast<uint8_t>(values[b * leaves + leaf]);
        }
        node.value = std::bit_cast<float>(bits);
        ++leaf;
        continue;
      }
      node.feature = feature;
      node.threshold = static_cast<uint8_t>(bins[bin++]);
      if (node.threshold >= out.thresholds_[feature].size()) return damaged("threshold");
      node.child = static_cast<uint32_t>(expected);
      expected += 2;
      if (expected > kMaxNodes) return damaged("tree size");
    }
    out.Add(plain);
  }
  if (out.trees_.size() != trees) return damaged("tree structure");
  return out;
}

// How many thresholds lie at or below the value: a binary search whose steps are moves, not jumps
// that nobody could foresee.
uint8_t Trees::Bin(size_t feature, float value) const {
  const auto& list = thresholds_[feature];
  const float* from = list.data();
  for (size_t left = list.size(); left > 1;) {
    const size_t half = left / 2;
    from += from[half - 1] <= value ? half : 0;
    left -= half;
  }
  const bool last = !list.empty() && *from <= value;
  return static_cast<uint8_t>(from - list.data() + (last ? 1 : 0));
}

void Trees::Predict(std::span<const float> rows, std::span<float> out) const {
  const size_t width = thresholds_.size();
  HASE_CHECK(rows.size() == width * out.size(), "{} floats for {} rows of {}", rows.size(),
             out.size(), width);
  // Several rows go down a tree side by side, so that their loads overlap; what is left of the rows
  // goes one by one down several trees instead.
  constexpr size_t kLanes = 8;
  const size_t whole = out.size() / kLanes * kLanes;
  // Of each block of rows: feature after feature, the rows of one side by side.
  std::vector<uint8_t> bins(out.size() * width);
  for (size_t f = 0; f < width; ++f) {
    float value = 0;
    uint8_t at = Bin(f, value);
    for (size_t r = 0; r < out.size(); ++r) {
      if (rows[r * width + f] != value) {  // the card's features are those of the row before
        value = rows[r * width + f];
        at = Bin(f, value);
      }
      bins[r < whole ? (r / kLanes * width + f) * kLanes + r % kLanes : r * width + f] = at;
    }
  }
  std::ranges::fill(out, base_);
  for (const Tree& tree : trees_) {
    const Flat* const nodes = nodes_.data() + tree.first;
    const float* const leaves = leaves_.data() + tree.first;
    for (size_t first = 0; first < whole; first += kLanes) {
      const uint8_t* const bin = bins.data() + first * width;
      uint32_t at[kLanes] = {};
      for (uint32_t level = 0; level < tree.depth; ++level) {
        for (size_t j = 0; j < kLanes; ++j) {
          const Flat node = nodes[at[j]];
          at[j] = node.child + (bin[node.feature * kLanes + j] > node.threshold ? 1U : 0U);
        }
      }
      for (size_t j = 0; j < kLanes; ++j) out[first + j] += leaves[at[j]];
    }
  }
  if (whole == out.size()) return;
  for (size_t first = 0; first < trees_.size(); first += kLanes) {
    const size_t real = std::min(kLanes, trees_.size() - first);
    const Flat* nodes[kLanes];
    uint32_t depth = 0;
    for (size_t j = 0; j < kLanes; ++j) {
      const Tree& tree = trees_[first + std::min(j, real - 1)];
      nodes[j] = nodes_.data() + tree.first;
      depth = std::max(depth, tree.depth);
    }
    for (size_t r = whole; r < out.size(); ++r) {
      const uint8_t* const bin = bins.data() + r * width;
      uint32_t at[kLanes] = {};
      for (uint32_t level = 0; level < depth; ++level) {
        for (size_t j = 0; j < kLanes; ++j) {
          const Flat node = nodes[j][at[j]];
          at[j] = node.child + (bin[node.feature] > node.threshold ? 1U : 0U);
        }
      }
      for (size_t j = 0; j < real; ++j) out[r] += leaves_[trees_[first + j].first + at[j]];
    }
  }
}

void Trees::PredictEndings(std::span<const float> rows, size_t shared,
                           std::span<const std::vector<float>> endings,
                           std::span<float> out) const {
  const size_t width = thresholds_.size(), count = endings.size();
  HASE_CHECK(count > 0 && count <= kMaxEndings && out.size() % count == 0 &&
                 rows.size() == width * (out.size() / count) && shared <= width,
             "{} floats, {} endings from {}, {} sums", rows.size(), count, shared, out.size());
  const size_t row_count = out.size() / count;
  // goes_right[(f - shared) * 256 + t]: the endings that go right at threshold t of feature f.
  std::vector<uint32_t> goes_right((width - shared) * 256, 0);
  for (const auto& e : endings) HASE_CHECK(e.size() == width - shared, "{} at an end", e.size());
  for (size_t f = shared; f < width; ++f) {
    uint32_t* const right = goes_right.data() + (f - shared) * 256;
    for (size_t e = 0; e < count; ++e) {
      const size_t bin = Bin(f, endings[e][f - shared]);
      if (bin > 0) right[bin - 1] |= uint32_t{1} << e;
    }
    for (size_t t = thresholds_[f].size(); t-- > 1;) right[t - 1] |= right[t];
  }
  std::vector<uint8_t> bins(row_count * width);
  for (size_t f = 0; f < shared; ++f) {
    for (size_t r = 0; r < row_count; ++r) bins[r * width + f] = Bin(f, rows[r * width + f]);
  }
  std::ranges::fill(out, base_);
  const uint32_t everyone = count == 32 ? ~uint32_t{0} : (uint32_t{1} << count) - 1;
  struct Part {
    uint32_t at, who;
  };
  Part waiting[kMaxEndings];
  for (const Tree& tree : trees_) {
    const Flat* const nodes = nodes_.data() + tree.first;
    for (size_t r = 0; r < row_count; ++r) {
      const uint8_t* const bin = bins.data() + r * width;
      size_t parts = 0;
      waiting[parts++] = {0, everyone};
      while (parts > 0) {
        auto [at, who] = waiting[--parts];
        for (Flat node = nodes[at]; node.threshold != kAlways; node = nodes[at]) {
          if (node.feature < shared) {
            at = node.child + (bin[node.feature] > node.threshold ? 1U : 0U);
            continue;
          }
          const uint32_t right = who & goes_right[(node.feature - shared) * 256 + node.threshold];
          at = node.child + (right != 0 ? 1U : 0U);
          if (right != 0 && right != who) {
            waiting[parts++] = {node.child, who & ~right};
            who = right;
          }
        }
        const float value = leaves_[tree.first + at];
        for (uint32_t left = who; left != 0; left &= left - 1) {
          out[r * count + static_cast<size_t>(std::countr_zero(left))] += value;
        }
      }
    }
  }
}

}  // namespace hase::latency

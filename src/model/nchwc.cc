// The pass follows the data as ONNX Runtime's NCHWc transformer does (core/optimizer, read at
// release 1.30): in execution order, a convolution or pool with suitable channels moves to the
// blocked layout; whatever reads only blocked tensors stays in it; a residual sum and an activation
// are folded into the convolution before them where nobody else reads it. Where a blocked tensor is
// still read in the plain layout, a ReorderOutput is inserted, and a ReorderInput the other way.
//
// Names are ONNX Runtime's ("relu_nchwc"), so that its profile can be laid beside the kernels;
// reorders are named after the tensor they reorder, since ONNX Runtime numbers them.
// Left out: sums of blocked tensors whose shapes differ (ONNX Runtime reshapes them; here they
// leave the layout).
#include "model/nchwc.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "model/operators.h"

namespace hase::model {
namespace {

constexpr int64_t kAlignment = 4;  // channels that ReorderInput can take
constexpr std::string_view kFusable[] = {"Relu", "Sigmoid", "Tanh", "HardSigmoid"};
constexpr std::string_view kPassing[] = {"Relu",        "Sigmoid", "Tanh",
                                         "HardSigmoid", "Gelu",    "QuickGelu"};

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

class BlockedLayout {
 public:
  BlockedLayout(const Graph& graph, int64_t block)
      : graph_(graph), block_(block), uses_(graph.CountUses()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const int input : graph.nodes[i].inputs) {
        if (input != kAbsent) readers_[input].push_back(i);
      }
    }
  }

  Graph Run() {
    removed_.assign(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!removed_[i]) Transform(i, Node(graph_.nodes[i]));
    }
    return Finish();
  }

 private:
  // A tensor of the plain graph that now lives in the blocked layout.
  struct Blocked {
    int tensor;         // in the blocked layout
    int64_t channels;   // without padding
    size_t maker;       // index in made_
    int uses_at_first;  // reads in the plain graph when it was made
    int uses_left;      // of these, reads that still want the plain layout
    std::string name;   // of the plain tensor
  };

  const Tensor& TensorAt(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }
  int UsesOf(int tensor) const { return uses_[static_cast<size_t>(tensor)]; }

  Blocked* Find(int tensor) {
    const auto it = blocked_.find(tensor);
    return it == blocked_.end() ? nullptr : &it->second;
  }

  void Transform(size_t index, Node node) {
    const std::string op = node.op;
    if (op == "Conv" || op == "FusedConv") {
      Convolution(std::move(node));
    } else if (op == "MaxPool" || op == "AveragePool") {
      Pool(std::move(node));
    } else if ((op == "GlobalMaxPool" || op == "GlobalAveragePool") && Find(node.inputs[0])) {
      Pool(std::move(node));
    } else if (op == "Mul" && node.inputs.size() == 2) {
      Multiply(std::move(node));
    } else if (op == "Add" || op == "Sum") {
      Sum(std::move(node));
    } else if (op == "Concat") {
      Concatenate(std::move(node));
    } else if (Contains(kPassing, op)) {
      Activate(index, std::move(node));
    } else if (op == "BatchNormalization") {
      Normalise(std::move(node));
    } else if (op == "Transpose") {
      Transpose(std::move(node));
    } else if (op == "Resize" || op == "Upsample") {
      Resize(std::move(node));
    } else {
      Keep(std::move(node));
    }
  }

  size_t Keep(Node node) {
    made_.push_back(std::move(node));
    return made_.size() - 1;
  }

  std::optional<Shape> FixedPart(int tensor) const { return At(TensorAt(tensor).shape, 1); }

  bool IsFloatImage(int tensor) const {
    return tensor != kAbsent && TensorAt(tensor).type == ElementType::kFloat &&
           TensorAt(tensor).shape.size() == 4;
  }

  int64_t Padded(int64_t channels) const { return (channels + block_ - 1) / block_ * block_; }

  int BlockedTensor(int plain, int64_t channels) {
    Tensor tensor = TensorAt(plain);
    tensor.shape[1] = {.fixed = Padded(channels), .per_batch = 0};
    added_.push_back(std::move(tensor));
    return static_cast<int>(graph_.tensors.size() + added_.size() - 1);
  }

  // Appends `node`, its output now blocked.
  void Make(Node node, int64_t channels) {
    const int plain = node.outputs[0];
    const int tensor = BlockedTensor(plain, channels);
    node.outputs[0] = tensor;
    std::string name = node.output_name();
    const size_t maker = Keep(std::move(node));
    blocked_[plain] = {tensor, channels, maker, UsesOf(plain), UsesOf(plain), std::move(name)};
  }

  void Use(int& input, Blocked& blocked) {
    input = blocked.tensor;
    --blocked.uses_left;
  }

  // The i-th input in the blocked layout, by a ReorderInput if it is not there yet.
  void UseOrReorder(Node& node, size_t i) {
    const int plain = node.inputs[i];
    if (Blocked* blocked = Find(plain)) return Use(node.inputs[i], *blocked);
    const auto [entry, fresh] = reordered_.try_emplace(plain, 0);
    if (fresh) {
      entry->second = BlockedTensor(plain, FixedPart(plain).value_or(Shape(4, 0))[1]);
      Node reorder;
      reorder.op = "ReorderInput";
      reorder.inputs = {SourceOf(plain)};
      reorder.outputs = {entry->second};
      reorder.name = "ReorderInput/" + NameOf(plain);
      reorder.output_names = {reorder.name};
      Keep(std::move(reorder));
    }
    node.inputs[i] = entry->second;
  }

  // What a ReorderInput reads: past a transposition from NHWC that nobody else wants.
  int SourceOf(int plain) {
    if (!from_nhwc_ || made_[*from_nhwc_].outputs[0] != plain) return plain;
    made_[*from_nhwc_].silent = true;
    dropped_.push_back(*from_nhwc_);
    return made_[*from_nhwc_].inputs[0];
  }

  std::string NameOf(int plain) const {
    for (const Node& node : graph_.nodes) {
      for (size_t i = 0; i < std::min(node.outputs.size(), node.output_names.size()); ++i) {
        if (node.outputs[i] == plain) return node.output_names[i];
      }
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (graph_.inputs[i] == plain) return graph_.input_names[i];
    }
    return std::to_string(plain);
  }

  bool IsConstant(int tensor) const { return tensor != kAbsent && TensorAt(tensor).constant; }

  void Convolution(Node node) {
    const bool sound = node.inputs.size() >= 2 && IsConstant(node.inputs[1]) &&
                       IsFloatImage(node.inputs[1]) &&
                       (node.inputs.size() < 3 || IsConstant(node.inputs[2])) &&
                       node.inputs.size() <= 3 + ClipBounds(node);
    if (!sound) {
      Keep(std::move(node));
      return;
    }
    const Shape weight = FixedPart(node.inputs[1]).value_or(Shape(4, 0));
    const int64_t outputs = weight[0], inputs = weight[1], groups = node.window->groups;
    bool reorder = true, fits = true;
    if (groups > 1) {
      const bool depthwise = inputs == 1 && outputs == groups;
      const bool aligned =
          inputs % block_ == 0 && outputs % groups == 0 && outputs / groups % block_ == 0;
      fits = outputs % kAlignment == 0 && (depthwise || aligned);
    } else if (inputs < block_) {
      reorder = false;  // few channels: read in the plain layout
    } else {
      fits = inputs % kAlignment == 0;
    }
    if (!fits) {
      Keep(std::move(node));
      return;
    }
    if (reorder) UseOrReorder(node, 0);
    node.name = node.output_name() + "_nchwc";
    node.op = "nchwc.Conv";
    if (node.parts.empty()) node.parts = {"Conv"};
    Make(std::move(node), outputs);
  }

  // A fused Clip brings its bounds as further constant inputs.
  static size_t ClipBounds(const Node& node) { return node.activation == "clip" ? 2 : 0; }

  void Pool(Node node) {
    const int64_t channels =
        IsFloatImage(node.inputs[0]) ? FixedPart(node.inputs[0]).value_or(Shape(4, 1))[1] : 1;
    if (node.outputs.size() > 1 || channels % block_ != 0) {
      Keep(std::move(node));
      return;
    }
    UseOrReorder(node, 0);
    node.name = node.output_name() + "_nchwc";
    Make(std::move(node), channels);
  }

  std::vector<Blocked*> AllBlocked(const Node& node) {
    std::vector<Blocked*> all;
    for (const int input : node.inputs) {
      Blocked* blocked = input == kAbsent ? nullptr : Find(input);
      if (blocked == nullptr) return {};
      all.push_back(blocked);
    }
    return all;
  }

  bool SameShapes(const Node& node) const {
    return std::ranges::all_of(node.inputs, [&](int input) {
      return TensorAt(input).shape == TensorAt(node.inputs[0]).shape;
    });
  }

  bool IsConvolution(const Blocked& blocked) const {
    return made_[blocked.maker].op == "nchwc.Conv";
  }

  // `node` becomes a part of the convolution that made `into`; its output is that one's.
  void Fold(const Node& node, Blocked& into, std::string part) {
    Node& maker = made_[into.maker];
    maker.parts.push_back(std::move(part));
    const int plain = node.outputs[0];
    Blocked moved = into;
    moved.uses_at_first = moved.uses_left = UsesOf(plain);
    moved.name = node.output_name();
    blocked_[plain] = std::move(moved);
  }

  void Sum(Node node) {
    const auto blocked = AllBlocked(node);
    if (blocked.empty() || !SameShapes(node)) {
      Keep(std::move(node));
      return;
    }
    for (size_t i = 0; i < blocked.size(); ++i) Use(node.inputs[i], *blocked[i]);
    for (size_t i = 0; i < blocked.size() && blocked.size() == 2; ++i) {
      Node& maker = made_[blocked[i]->maker];
      if (!IsConvolution(*blocked[i]) || maker.fused_add || blocked[i]->uses_at_first != 1 ||
          !maker.activation.empty()) {
        continue;
      }
      maker.inputs.push_back(blocked[1 - i]->tensor);
      maker.fused_add = true;
      // It runs where the sum stood: its other operand may be made after the convolution's place.
      Node moved = std::move(maker);
      maker = Node{};
      maker.silent = true;
      dropped_.push_back(blocked[i]->maker);
      blocked[i]->maker = Keep(std::move(moved));
      Fold(node, *blocked[i], node.op);
      return;
    }
    const int64_t channels = blocked[0]->channels;
    Make(std::move(node), channels);
  }

  void Multiply(Node node) {
    if (const auto blocked = AllBlocked(node); !blocked.empty()) {
      if (!SameShapes(node)) {
        Keep(std::move(node));
        return;
      }
      const int64_t channels = blocked[0]->channels;
      for (size_t i = 0; i < 2; ++i) Use(node.inputs[i], *blocked[i]);
      Make(std::move(node), channels);
      return;
    }
    // A constant scale per channel becomes a depthwise 1×1 convolution.
    for (size_t i = 0; i < 2; ++i) {
      Blocked* blocked = Find(node.inputs[i]);
      if (blocked == nullptr || !IsChannelScale(node.inputs[1 - i], blocked->channels)) continue;
      const int64_t channels = blocked->channels;
      Use(node.inputs[i], *blocked);
      node.name = node.output_name() + "_mul_nchwc";
      node.op = "nchwc.Conv";
      node.parts = {"Mul"};
      Make(std::move(node), channels);
      return;
    }
    Keep(std::move(node));
  }

  bool IsChannelScale(int tensor, int64_t channels) const {
    if (!IsConstant(tensor) || TensorAt(tensor).type != ElementType::kFloat) return false;
    Shape shape = FixedPart(tensor).value_or(Shape{});
    if (shape.size() == 3) shape.insert(shape.begin(), 1);
    return shape == Shape{1, channels, 1, 1};
  }

  void Concatenate(Node node) {
    const auto blocked = AllBlocked(node);
    const bool aligned =
        std::ranges::all_of(blocked, [&](const Blocked* b) { return b->channels % block_ == 0; });
    const auto axis = node.attributes.find("axis");
    if (blocked.empty() || !aligned || axis == node.attributes.end() || axis->second != 1) {
      Keep(std::move(node));
      return;
    }
    int64_t channels = 0;
    for (size_t i = 0; i < blocked.size(); ++i) {
      channels += blocked[i]->channels;
      Use(node.inputs[i], *blocked[i]);
    }
    Make(std::move(node), channels);
  }

  void Activate(size_t index, Node node) {
    const int plain = node.inputs[0];
    Blocked* blocked = Find(plain);
    if (blocked == nullptr) {
      Keep(std::move(node));
      return;
    }
    if (FoldHardSwish(index, plain, *blocked)) return;
    Use(node.inputs[0], *blocked);
    Node& maker = made_[blocked->maker];
    if (IsConvolution(*blocked) && Contains(kFusable, node.op) && blocked->uses_at_first == 1 &&
        maker.activation.empty()) {
      maker.activation = ActivationName(node.op);
      Fold(node, *blocked, node.op);
      return;
    }
    const int64_t channels = blocked->channels;
    Make(std::move(node), channels);
  }

  // x · HardSigmoid(x) with the constants of HardSwish, both readers of one convolution.
  bool FoldHardSwish(size_t index, int plain, Blocked& blocked) {
    const Node& gate = graph_.nodes[index];
    const auto flag = gate.attributes.find("hard_swish");
    if (flag == gate.attributes.end() || flag->second == 0 || !IsConvolution(blocked) ||
        UsesOf(gate.outputs[0]) != 1 || blocked.uses_at_first != 2 ||
        !made_[blocked.maker].activation.empty()) {
      return false;
    }
    for (const size_t reader : readers_[plain]) {
      if (reader == index) continue;
      const Node& product = graph_.nodes[reader];
      const bool both = std::ranges::find(product.inputs, gate.outputs[0]) != product.inputs.end();
      const auto& outputs = graph_.outputs;
      if (product.op != "Mul" || !both ||
          std::ranges::find(outputs, product.outputs[0]) != outputs.end()) {
        return false;
      }
      blocked.uses_left -= 2;
      made_[blocked.maker].activation = "hardswish";
      Fold(product, blocked, "HardSwish");
      removed_[reader] = true;
      return true;
    }
    return false;
  }

  // Becomes a depthwise 1×1 convolution, into which an activation can fold.
  void Normalise(Node node) {
    Blocked* blocked = Find(node.inputs[0]);
    const bool constant = std::ranges::all_of(node.inputs.begin() + 1, node.inputs.end(),
                                              [&](int input) { return IsConstant(input); });
    const bool epsilon = node.attributes.contains("epsilon_given");
    if (blocked == nullptr || !constant || !epsilon || node.outputs.size() > 1) {
      Keep(std::move(node));
      return;
    }
    const int64_t channels = blocked->channels;
    Use(node.inputs[0], *blocked);
    node.name = node.output_name() + "_bn_nchwc";
    node.op = "nchwc.Conv";
    node.parts = {"BatchNormalization"};
    Make(std::move(node), channels);
  }

  void Transpose(Node node) {
    const auto flag = [&](const char* name) {
      const auto it = node.attributes.find(name);
      return it != node.attributes.end() && it->second != 0;
    };
    Blocked* blocked = Find(node.inputs[0]);
    if (blocked != nullptr && flag("to_nhwc")) {
      Use(node.inputs[0], *blocked);
      node.op = "ReorderOutput";
      node.name = "ReorderOutput/" + node.output_name();
      Keep(std::move(node));
      return;
    }
    const bool single = UsesOf(node.outputs[0]) == 1 &&
                        std::ranges::find(graph_.outputs, node.outputs[0]) == graph_.outputs.end();
    const bool from_nhwc = flag("from_nhwc") && single;
    const size_t made = Keep(std::move(node));
    if (from_nhwc) from_nhwc_ = made;
  }

  void Resize(Node node) {
    Blocked* blocked = Find(node.inputs[0]);
    const auto flag = node.attributes.find("blockable");
    if (blocked == nullptr || flag == node.attributes.end() || flag->second == 0 ||
        !WholeScales(node)) {
      Keep(std::move(node));
      return;
    }
    const int64_t channels = blocked->channels;
    Use(node.inputs[0], *blocked);
    node.name = node.output_name() + "_nchwc";
    node.parts = {node.op};
    node.op = "Upsample";
    Make(std::move(node), channels);
  }

  bool WholeScales(const Node& node) const {
    const auto in = FixedPart(node.inputs[0]), out = FixedPart(node.outputs[0]);
    return in && out && in->size() == 4 && out->size() == 4 && (*in)[1] == (*out)[1] &&
           (*in)[2] > 0 && (*in)[3] > 0 && (*out)[2] % (*in)[2] == 0 && (*out)[3] % (*in)[3] == 0;
  }

  Graph Finish() {
    std::unordered_map<size_t, std::vector<Node>> after;  // reorders by their maker's index
    for (const auto& [plain, blocked] : SortedByTensor()) {
      if (blocked.uses_left <= 0) continue;
      Node reorder;
      reorder.op = "ReorderOutput";
      reorder.name = "ReorderOutput/" + blocked.name;
      reorder.output_names = {blocked.name};
      reorder.inputs = {blocked.tensor};
      reorder.outputs = {plain};
      after[blocked.maker].push_back(std::move(reorder));
    }
    Graph graph = graph_;
    graph.nodes.clear();
    std::ranges::move(added_, std::back_inserter(graph.tensors));
    for (size_t i = 0; i < made_.size(); ++i) {
      if (std::ranges::find(dropped_, i) == dropped_.end()) {
        graph.nodes.push_back(std::move(made_[i]));
      }
      for (Node& reorder : after[i]) graph.nodes.push_back(std::move(reorder));
    }
    return graph;
  }

  std::vector<std::pair<int, Blocked>> SortedByTensor() const {
    std::vector<std::pair<int, Blocked>> all(blocked_.begin(), blocked_.end());
    std::ranges::sort(all, {}, &std::pair<int, Blocked>::first);
    return all;
  }

  const Graph& graph_;
  const int64_t block_;
  const std::vector<int> uses_;
  std::unordered_map<int, std::vector<size_t>> readers_;  // of a tensor, in execution order
  std::unordered_map<int, Blocked> blocked_;              // by plain tensor
  std::unordered_map<int, int> reordered_;  // plain tensor → its ReorderInput's output
  std::vector<Node> made_;
  std::vector<size_t> dropped_;  // of made_: moved or absorbed
  std::vector<bool> removed_;    // of the plain graph's nodes
  std::vector<Tensor> added_;
  std::optional<size_t> from_nhwc_;  // the last transposition from NHWC, in made_
};

}  // namespace

Graph ToNchwc(const Graph& graph, int64_t block) { return BlockedLayout(graph, block).Run(); }

}  // namespace hase::model

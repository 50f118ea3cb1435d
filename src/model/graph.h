// Graph: a model between its ONNX file and its kernels. It is what ONNX Runtime leaves after its
// *basic* (provider-independent) optimisations, weights forgotten, every dimension an affine
// function of the batch: one Graph gives the kernels of every runtime (fusion.h) at every batch
// (resolve.h). A *.kernels.json file is a Graph (kernels_json.h).
//
// Left out: attributes that change neither cost nor fusion; weight values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/element_type.h"
#include "model/kernel.h"

namespace hase::model {

// fixed + per_batch · batch.
struct Dim {
  int64_t fixed = 0;
  int64_t per_batch = 0;
  // nullopt if it overflows or is negative at this batch.
  std::optional<int64_t> At(int64_t batch) const;
  bool operator==(const Dim&) const = default;
};
using SymbolicShape = std::vector<Dim>;
std::optional<Shape> At(const SymbolicShape& shape, int64_t batch);

struct Tensor {
  SymbolicShape shape;
  ElementType type = ElementType::kFloat;
  bool constant = false;  // a weight, bias or other value known before the run
  bool operator==(const Tensor&) const = default;
};

struct Node {
  std::string name;
  std::vector<std::string> output_names;  // beside outputs; layout passes name kernels after them
  std::string op;                         // as ONNX or a fusion rule names it: "Conv", "FusedConv"
  std::vector<int> inputs;       // tensor indices; kAbsent where an optional input is left out
  std::vector<int> outputs;      // as inputs
  std::optional<Window> window;  // convolution and pooling
  std::map<std::string, int64_t> attributes;  // those of kKeptAttributes that the node has
  // Set by fusion. The operators inside, in order ("Conv", "Add", "Relu"); empty = just `op`.
  std::vector<std::string> parts;
  std::string root;        // the operator that decides what the launch costs; empty = first part
  std::string activation;  // as Kernel::activation
  bool fused_add = false;
  bool silent = false;  // leaves no launch: kept for the shapes and buffers it passes on
  bool operator==(const Node&) const = default;

  const std::string& output_name() const { return output_names.empty() ? name : output_names[0]; }
  const std::string& cost_op() const {
    return !root.empty() ? root : parts.empty() ? op : parts[0];
  }
};
constexpr int kAbsent = -1;

// Integer attributes that cost or fusion rules read, and facts derived from other attributes:
//   blockable      a resize that the blocked CPU layout can take (nearest, asymmetric, floor;
//   linear) epsilon_given  the normalisation states its epsilon from_nhwc, to_nhwc  what a
//   transposition does hard_swish     a HardSigmoid with the constants 1/6 and 1/2
constexpr std::string_view kKeptAttributes[] = {
    "axis",        "blockable", "epsilon_given", "from_nhwc", "hard_swish",
    "hidden_size", "num_heads", "to_nhwc",       "transA",    "transB"};

struct Graph {
  std::string model;   // zoo name or file stem
  int64_t params = 0;  // by docs/formats.md, "Counting"
  int opset = 0;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;  // in execution order
  std::vector<int> inputs, outputs;
  std::vector<std::string> input_names;  // beside `inputs`
  // Set if the file fixes the batch: nothing else can then be asked of it.
  std::optional<int64_t> fixed_batch;
  bool operator==(const Graph&) const = default;

  // Indices in range, every tensor made once and before it is read, shapes sane at batch 1.
  // The error names the node.
  Status Check() const;
  // Per tensor, how many node inputs and graph outputs read it.
  std::vector<int> CountUses() const;
  // Usage error if `batch` is below 1 or contradicts fixed_batch, naming the input.
  Status CheckBatch(int64_t batch) const;
};

}  // namespace hase::model

// The model's memory terms by liveness: walk the kernels in execution order, allocate outputs,
// free what nobody reads any more, remember the highest water mark. Buffers are shared as ONNX
// Runtime's planner shares them: a reshape's output is its input's buffer, an element-wise kernel
// takes over the buffer of an input of the same size whose last reader it is.
#include <fmt/format.h>

#include <algorithm>

#include "model/operators.h"
#include "model/resolve.h"

namespace hase::model {
namespace {

constexpr int64_t kWorkspaceCap = int64_t{256} << 20;

class Liveness {
 public:
  Liveness(const Graph& graph, Precision precision, int64_t batch)
      : graph_(graph),
        precision_(precision),
        batch_(batch),
        buffer_(graph.tensors.size(), kAbsent) {}

  // The high-water mark in bytes; an error naming the node on overflow.
  Result<int64_t> Peak() {
    uses_ = graph_.CountUses();
    for (const int input : graph_.inputs) Own(input, /*bytes=*/0);  // the caller's memory
    for (const Node& node : graph_.nodes) {
      for (const int output : node.outputs) {
        if (output != kAbsent) HASE_RETURN_IF_ERROR(Allocate(node, output));
      }
      peak_ = std::max(peak_, live_);
      for (const int output : node.outputs) {
        if (output != kAbsent && uses_[static_cast<size_t>(output)] == 0) Drop(output);
      }
      for (const int input : node.inputs) {
        if (input != kAbsent) Release(input);
      }
    }
    return peak_;
  }

 private:
  struct Buffer {
    int64_t bytes = 0;
    int holders = 0;  // tensors in it that are still to be read
  };

  void Own(int tensor, int64_t bytes) {
    buffer_[static_cast<size_t>(tensor)] = static_cast<int>(buffers_.size());
    buffers_.push_back({bytes, 1});
    live_ += bytes;
  }

  void Share(int tensor, int with) {
    const int buffer = buffer_[static_cast<size_t>(with)];
    buffer_[static_cast<size_t>(tensor)] = buffer;
    ++buffers_[static_cast<size_t>(buffer)].holders;
  }

  void Drop(int tensor) {
    const int index = buffer_[static_cast<size_t>(tensor)];
    if (index == kAbsent) return;  // a constant
    Buffer& buffer = buffers_[static_cast<size_t>(index)];
    if (--buffer.holders == 0) live_ -= buffer.bytes;
  }

  void Release(int tensor) {
    if (--uses_[static_cast<size_t>(tensor)] == 0) Drop(tensor);
  }

  // The input whose buffer this output can take over, if any.
  std::optional<int> Takeover(const Node& node, int64_t bytes) const {
    const Memory memory = FindOperator(node.cost_op()).memory;
    const bool sum_inside = node.fused_add;  // the residual sum is written over its operand
    if (memory != Memory::kAlias && memory != Memory::kInPlace && !sum_inside) return std::nullopt;
    for (const int input : node.inputs) {
      if (input == kAbsent || buffer_[static_cast<size_t>(input)] == kAbsent) continue;
      if (memory == Memory::kAlias) return input;
      const Buffer& buffer = buffers_[static_cast<size_t>(buffer_[static_cast<size_t>(input)])];
      const bool last_reader = uses_[static_cast<size_t>(input)] == 1 && buffer.holders == 1;
      if (last_reader && buffer.bytes == bytes) return input;
    }
    return std::nullopt;
  }

  Status Allocate(const Node& node, int output) {
    const auto bytes = TensorBytes(graph_.tensors[static_cast<size_t>(output)], precision_, batch_);
    if (!bytes || *bytes > (int64_t{1} << 60) - live_) {
      return Invalid(fmt::format("node '{}' ({}): its memory overflows 64 bits at batch {}",
                                 node.name, node.op, batch_));
    }
    const auto from = output == node.outputs.front() ? Takeover(node, *bytes) : std::nullopt;
    if (from) {
      Share(output, *from);
    } else {
      Own(output, *bytes);
    }
    return {};
  }

  const Graph& graph_;
  const Precision precision_;
  const int64_t batch_;
  std::vector<int> buffer_;  // per tensor; kAbsent for constants
  std::vector<Buffer> buffers_;
  std::vector<int> uses_;
  int64_t live_ = 0, peak_ = 0;
};

// Bytes of all these tensors, each once; nullopt on overflow.
std::optional<int64_t> SumBytes(const Graph& graph, const std::vector<int>& tensors,
                                Precision precision, int64_t batch) {
  int64_t sum = 0;
  for (const int tensor : tensors) {
    const auto bytes = TensorBytes(graph.tensors[static_cast<size_t>(tensor)], precision, batch);
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum)) return std::nullopt;
  }
  return sum;
}

std::vector<int> UsedConstants(const Graph& graph) {
  const auto uses = graph.CountUses();
  std::vector<int> constants;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].constant && uses[i] > 0) constants.push_back(static_cast<int>(i));
  }
  return constants;
}

// A GPU library may lower a convolution through a matrix of all its windows; capped, since it then
// takes an algorithm without one. ONNX Runtime's CPU kernels work in small per-thread tiles.
int64_t Workspace(const Kernel& kernel, Runtime runtime) {
  const bool lowered =
      kernel.op_class == OpClass::kConv || kernel.op_class == OpClass::kGroupedConv;
  const bool pointwise = kernel.window.kernel == std::array{1, 1};
  if (runtime == Runtime::kOrtCpu || !lowered || pointwise) return 0;
  const double bytes = static_cast<double>(kernel.m) * static_cast<double>(kernel.k) *
                       static_cast<double>(kernel.gemm_batch) * BytesPerElement(kernel.precision);
  return bytes > static_cast<double>(kWorkspaceCap) ? kWorkspaceCap : static_cast<int64_t>(bytes);
}

}  // namespace

Result<MemoryTerms> ResolveMemory(const Graph& graph, Runtime runtime, Precision precision,
                                  int64_t batch) {
  const auto weights = SumBytes(graph, UsedConstants(graph), precision, batch);
  const auto input = SumBytes(graph, graph.inputs, precision, batch);
  const auto output = SumBytes(graph, graph.outputs, precision, batch);
  if (!weights || !input || !output) {
    return Invalid(
        fmt::format("model '{}': its weights, inputs or outputs overflow 64 bits at "
                    "batch {}",
                    graph.model, batch));
  }
  HASE_ASSIGN_OR_RETURN(const int64_t peak, Liveness(graph, precision, batch).Peak());
  int64_t workspace = 0;
  for (const Node& node : graph.nodes) {
    HASE_ASSIGN_OR_RETURN(const Kernel kernel, ResolveKernel(graph, node, precision, batch));
    workspace = std::max(workspace, Workspace(kernel, runtime));
  }
  return MemoryTerms{.weights = Bytes(*weights),
                     .peak_activations = Bytes(peak),
                     .largest_workspace = Bytes(workspace),
                     .input = Bytes(*input),
                     .output = Bytes(*output)};
}

}  // namespace hase::model

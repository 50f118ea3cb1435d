// The model's memory terms: which tensors share buffers, when those are held, the greatest sum of
// what is live, and what ONNX Runtime's arena comes to hold of it.
#include <fmt/format.h>

#include <algorithm>

#include "model/arena.h"
#include "model/operators.h"
#include "model/resolve.h"

namespace hase::model {
namespace {

constexpr int64_t kWorkspaceCap = int64_t{256} << 20;

// Which tensors share a buffer, and when each buffer is held. As ONNX Runtime plans it: a reshape's
// output is its input's buffer, an element-wise kernel takes over an input of the same size whose
// last reader it is, and else a tensor takes a buffer of its very shape that has fallen free
// before.
class BufferPlan {
 public:
  struct Buffer {
    int64_t bytes = 0;
    int holders = 0;               // tensors in it that are still to be read
    const Tensor* like = nullptr;  // whose shape it has; null = the caller's memory
    size_t first = 0, last = 0;    // the nodes it is held from and to
  };

  BufferPlan(const Graph& graph, Precision precision, int64_t batch)
      : graph_(graph),
        precision_(precision),
        batch_(batch),
        buffer_(graph.tensors.size(), kAbsent),
        uses_(graph.CountUses()) {}

  // An error naming the node on overflow.
  Status Make() {
    for (const int input : graph_.inputs) Own(input, {.holders = 1});
    for (now_ = 0; now_ < graph_.nodes.size(); ++now_) {
      const Node& node = graph_.nodes[now_];
      for (const int output : node.outputs) {
        if (output != kAbsent) HASE_RETURN_IF_ERROR(Place(node, output));
      }
      peak_ = std::max(peak_, live_);
      for (const int output : node.outputs) {
        if (output != kAbsent && uses_[static_cast<size_t>(output)] == 0) Drop(output);
      }
      for (const int input : node.inputs) {
        if (input != kAbsent) Release(input);
      }
    }
    for (Buffer& buffer : buffers_) {  // the caller reads the outputs last
      if (buffer.holders > 0) buffer.last = graph_.nodes.size();
    }
    return {};
  }

  int64_t peak() const { return peak_; }  // greatest sum of live tensors
  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  void Own(int tensor, Buffer buffer) {
    buffer_[static_cast<size_t>(tensor)] = static_cast<int>(buffers_.size());
    buffers_.push_back(buffer);
    live_ += buffer.bytes;
  }

  void Share(int tensor, int buffer) {
    buffer_[static_cast<size_t>(tensor)] = buffer;
    ++buffers_[static_cast<size_t>(buffer)].holders;
  }

  void Drop(int tensor) {
    const int index = buffer_[static_cast<size_t>(tensor)];
    if (index == kAbsent) return;  // a constant
    Buffer& buffer = buffers_[static_cast<size_t>(index)];
    if (--buffer.holders > 0) return;
    live_ -= buffer.bytes;
    buffer.last = now_;
    if (buffer.like) free_.push_back(index);
  }

  void Release(int tensor) {
    if (--uses_[static_cast<size_t>(tensor)] == 0) Drop(tensor);
  }

  // The buffer of an input that this output can take over, if any.
  std::optional<int> Takeover(const Node& node, int64_t bytes) const {
    const Memory memory = FindOperator(node.cost_op()).memory;
    const bool sum_inside = node.fused_add;  // the residual sum is written over its operand
    if (memory != Memory::kAlias && memory != Memory::kInPlace && !sum_inside) return std::nullopt;
    for (const int input : node.inputs) {
      if (input == kAbsent || buffer_[static_cast<size_t>(input)] == kAbsent) continue;
      const int index = buffer_[static_cast<size_t>(input)];
      if (memory == Memory::kAlias) return index;
      const Buffer& buffer = buffers_[static_cast<size_t>(index)];
      const bool last_reader = uses_[static_cast<size_t>(input)] == 1 && buffer.holders == 1;
      if (last_reader && buffer.bytes == bytes) return index;
    }
    return std::nullopt;
  }

  // The buffer of this shape that fell free last, if any.
  std::optional<int> Again(const Tensor& tensor) {
    for (auto it = free_.rbegin(); it != free_.rend(); ++it) {
      const Tensor& like = *buffers_[static_cast<size_t>(*it)].like;
      if (like.shape != tensor.shape || like.type != tensor.type) continue;
      const int index = *it;
      free_.erase(std::next(it).base());
      return index;
    }
    return std::nullopt;
  }

  Status Place(const Node& node, int output) {
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(output)];
    const auto bytes = TensorBytes(tensor, precision_, batch_);
    if (!bytes || *bytes > (int64_t{1} << 60) - live_) {
      return Invalid(fmt::format("node '{}' ({}): its memory overflows 64 bits at batch {}",
                                 node.name, node.op, batch_));
    }
    if (output == node.outputs.front()) {
      if (const auto taken = Takeover(node, *bytes)) {
        Share(output, *taken);
        return {};
      }
    }
    if (const auto again = Again(tensor)) {
      Share(output, *again);
      live_ += *bytes;
      return {};
    }
    Own(output, {.bytes = *bytes, .holders = 1, .like = &tensor, .first = now_});
    return {};
  }

  const Graph& graph_;
  const Precision precision_;
  const int64_t batch_;
  std::vector<int> buffer_;  // per tensor; kAbsent for constants
  std::vector<int> uses_;
  std::vector<Buffer> buffers_;
  std::vector<int> free_;  // in the order they fell free
  size_t now_ = 0;
  int64_t live_ = 0, peak_ = 0;
};

// What the arena holds after a few runs: a later run finds other regions free than the first did.
int64_t ArenaOf(const BufferPlan& plan, size_t nodes) {
  constexpr int kRuns = 3;
  const auto& buffers = plan.buffers();
  std::vector<std::vector<int>> begin(nodes), end(nodes + 1);
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].like || buffers[b].bytes == 0) continue;
    begin[buffers[b].first].push_back(static_cast<int>(b));
    end[buffers[b].last].push_back(static_cast<int>(b));
  }
  Arena arena;
  std::vector<int> chunk(buffers.size(), -1);
  for (int run = 0; run < kRuns; ++run) {
    for (size_t n = 0; n <= nodes; ++n) {
      if (n < nodes) {
        for (const int b : begin[n]) {
          chunk[static_cast<size_t>(b)] = arena.Allocate(buffers[static_cast<size_t>(b)].bytes);
        }
      }
      for (const int b : end[n]) arena.Free(chunk[static_cast<size_t>(b)]);
    }
  }
  return arena.reserved();
}

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
  BufferPlan plan(graph, precision, batch);
  HASE_RETURN_IF_ERROR(plan.Make());
  int64_t workspace = 0;
  for (const Node& node : graph.nodes) {
    HASE_ASSIGN_OR_RETURN(const Kernel kernel, ResolveKernel(graph, node, precision, batch));
    workspace = std::max(workspace, Workspace(kernel, runtime));
  }
  return MemoryTerms{
      .weights = Bytes(*weights),
      .peak_activations = Bytes(plan.peak()),
      .arena = Bytes(runtime == Runtime::kOrtCpu ? ArenaOf(plan, graph.nodes.size()) : 0),
      .largest_workspace = Bytes(workspace),
      .input = Bytes(*input),
      .output = Bytes(*output)};
}

}  // namespace hase::model

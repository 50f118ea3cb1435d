// The model's memory terms: the greatest sum of what is live, and what ONNX Runtime's arena comes
// to hold of it.
#include <fmt/format.h>

#include <algorithm>

#include "model/buffer_plan.h"
#include "model/resolve.h"

namespace hase::model {
namespace {

constexpr int64_t kWorkspaceCap = int64_t{256} << 20;

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
  return MemoryTerms{.weights = Bytes(*weights),
                     .peak_activations = Bytes(plan.peak()),
                     .arena = Bytes(runtime == Runtime::kOrtCpu ? plan.Place().reserved : 0),
                     .largest_workspace = Bytes(workspace),
                     .input = Bytes(*input),
                     .output = Bytes(*output)};
}

}  // namespace hase::model

#include "model/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "model/operators.h"
#include "model/reuse.h"

namespace hase::model {
namespace {

// A count that remembers whether it ever left 64 bits.
struct Count {
  int64_t value = 0;
  bool overflow = false;
  friend Count operator*(Count a, Count b) {
    Count product{0, a.overflow || b.overflow};
    product.overflow |= __builtin_mul_overflow(a.value, b.value, &product.value);
    return product;
  }
  friend Count operator+(Count a, Count b) {
    Count sum{0, a.overflow || b.overflow};
    sum.overflow |= __builtin_add_overflow(a.value, b.value, &sum.value);
    return sum;
  }
};

Count Product(std::span<const int64_t> dims) {
  Count product{1};
  for (const int64_t dim : dims) product = product * Count{dim};
  return product;
}

int Width(ElementType type, Precision precision) {
  return type == ElementType::kFloat ? BytesPerElement(precision) : BytesOf(type);
}

// What a kernel computes in: the first floating (or 8-bit) tensor it touches says so.
Precision PrecisionOf(const Graph& graph, const Node& node, Precision precision) {
  const auto own = [&](int index) -> std::optional<Precision> {
    if (index == kAbsent) return std::nullopt;
    switch (graph.tensors[static_cast<size_t>(index)].type) {
      case ElementType::kFloat:
        return precision;
      case ElementType::kHalf:
        return Precision::kFp16;
      case ElementType::kBfloat16:
        return Precision::kBf16;
      case ElementType::kInt8:
      case ElementType::kUint8:
        return Precision::kInt8;
      default:
        return std::nullopt;
    }
  };
  for (const int input : node.inputs) {
    if (const auto p = own(input)) return *p;
  }
  for (const int output : node.outputs) {
    if (const auto p = own(output)) return *p;
  }
  return precision;
}

// Resolves one node: shapes first, then the work by the operator's rule.
class Resolver {
 public:
  Resolver(const Graph& graph, const Node& node, Precision precision, int64_t batch)
      : graph_(graph),
        node_(node),
        precision_(precision),
        batch_(batch),
        operator_(FindOperator(node.cost_op())) {}

  Result<Kernel> Run() {
    kernel_.name = node_.name;
    kernel_.op = node_.parts.empty() ? node_.op : fmt::format("{}", fmt::join(node_.parts, "+"));
    kernel_.op_class = operator_.op_class;
    kernel_.precision = PrecisionOf(graph_, node_, precision_);
    kernel_.window = node_.window.value_or(Window{});
    kernel_.fused_add = node_.fused_add;
    kernel_.activation = node_.activation;
    HASE_RETURN_IF_ERROR(ReadShapes());
    CountTraffic();
    CountWork();
    if (overflow_) return Overflow();
    return std::move(kernel_);
  }

 private:
  std::unexpected<Error> Overflow() const {
    return Invalid(fmt::format("node '{}' ({}): shapes or work overflow 64 bits at batch {}",
                               node_.name, node_.op, batch_));
  }

  int64_t Keep(Count count) {
    overflow_ |= count.overflow;
    return count.value;
  }

  // The shape of the node's i-th input; empty if absent.
  Shape InputShape(size_t i) const {
    if (i >= node_.inputs.size() || node_.inputs[i] == kAbsent) return {};
    return At(TensorAt(node_.inputs[i]).shape, batch_).value_or(Shape{});
  }
  const Tensor& TensorAt(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }

  // Constants that steer an operator (axes, target shapes, clip bounds) are no operands.
  static bool IsOperand(const Tensor& tensor) {
    if (!tensor.constant) return true;
    const bool scalar = tensor.shape.empty();
    return !scalar && (IsFloating(tensor.type) || tensor.type == ElementType::kInt8 ||
                       tensor.type == ElementType::kUint8);
  }

  Status ReadShapes() {
    std::vector<Shape> weights;
    for (const int input : node_.inputs) {
      if (input == kAbsent || !IsOperand(TensorAt(input))) continue;
      auto shape = At(TensorAt(input).shape, batch_);
      if (!shape) return Overflow();
      (TensorAt(input).constant ? weights : kernel_.inputs).push_back(std::move(*shape));
    }
    std::ranges::move(weights, std::back_inserter(kernel_.inputs));
    for (const int output : node_.outputs) {
      if (output == kAbsent) continue;
      auto shape = At(TensorAt(output).shape, batch_);
      if (!shape) return Overflow();
      kernel_.output = std::move(*shape);
      break;
    }
    return {};
  }

  Count BytesOf(int index) const {
    const auto bytes = TensorBytes(TensorAt(index), precision_, batch_);
    return bytes ? Count{*bytes} : Count{0, true};
  }

  void CountTraffic() {
    if (operator_.memory == Memory::kAlias) return;
    Count read, weights, written;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const int input = node_.inputs[i];
      // A tensor read twice by one kernel is fetched once.
      if (input == kAbsent || std::find(node_.inputs.begin(), node_.inputs.begin() + i, input) !=
                                  node_.inputs.begin() + i) {
        continue;
      }
      Count& sum = TensorAt(input).constant ? weights : read;
      sum = sum + BytesOf(input);
    }
    for (const int output : node_.outputs) {
      if (output != kAbsent) written = written + BytesOf(output);
    }
    if (operator_.memory == Memory::kPick) {
      const bool from_table =
          !node_.inputs.empty() && node_.inputs[0] != kAbsent && TensorAt(node_.inputs[0]).constant;
      (from_table ? weights : read) = written;
    }
    kernel_.bytes_activations = Keep(read);
    kernel_.bytes_weights = Keep(weights);
    kernel_.bytes_written = Keep(written);
  }

  void CountWork() {
    const Count outputs = Product(kernel_.output);
    const Count weight{operator_.weight};
    switch (operator_.work) {
      case Work::kNone:
        return;
      case Work::kPerOutput:
        kernel_.flops = Keep(outputs * weight);
        return;
      case Work::kPerInput:
        kernel_.flops = Keep(Product(InputShape(0)) * weight);
        return;
      case Work::kWindow:
        kernel_.flops =
            Keep(outputs * Count{kernel_.window.kernel[0]} * Count{kernel_.window.kernel[1]});
        return;
      case Work::kConvolution:
      case Work::kTransposedConvolution:
        return CountConvolution();
      case Work::kMatMul:
        return CountMatMul();
      case Work::kRecurrent:
        return CountRecurrent();
      case Work::kDotProductAttention:
        return CountAttention();
    }
  }

  void SetGemm(Count m, Count n, Count k, Count gemm_batch) {
    kernel_.m = Keep(m);
    kernel_.n = Keep(n);
    kernel_.k = Keep(k);
    kernel_.gemm_batch = Keep(gemm_batch);
    kernel_.flops = Keep(Count{2} * m * n * k * gemm_batch);
  }

  void CountConvolution() {
    const size_t weight_at = node_.cost_op() == "QLinearConv" ? 3 : 1;
    const Shape weight = InputShape(weight_at), input = InputShape(0);
    if (weight.size() < 3 || input.size() < 3 || kernel_.output.size() < 3) return;
    const int64_t groups = kernel_.window.groups;
    const Count area = Product(std::span(weight).subspan(2));
    if (operator_.work == Work::kTransposedConvolution) {
      // Every input element is multiplied into a window of each output channel of its group.
      const Count pixels = Count{input[0]} * Product(std::span(input).subspan(2));
      SetGemm(pixels, Count{weight[1]} * area, Count{weight[0] / groups}, Count{groups});
    } else {
      const Count pixels = Count{kernel_.output[0]} * Product(std::span(kernel_.output).subspan(2));
      SetGemm(pixels, Count{weight[0] / groups}, Count{weight[1]} * area, Count{groups});
    }
    if (groups > 1) {
      kernel_.op_class = weight[1] == 1 ? OpClass::kDepthwiseConv : OpClass::kGroupedConv;
    }
  }

  void CountMatMul() {
    const bool quantised = node_.cost_op() == "QLinearMatMul";
    const Shape a = InputShape(0), b = InputShape(quantised ? 3 : 1);
    if (a.empty() || b.empty()) return;
    const auto transposed = node_.attributes.find("transA");
    const bool trans_a = transposed != node_.attributes.end() && transposed->second != 0;
    const int64_t k = trans_a && a.size() > 1 ? a[a.size() - 2] : a.back();
    const Count outputs = Product(kernel_.output);
    const Count n = b.size() == 1 ? Count{1} : Count{kernel_.output.back()};
    if (n.value <= 0) return;
    const int64_t rows = outputs.value / n.value;
    // A weight shared by the whole batch makes one tall product.
    const bool one_product = b.size() <= 2 || a.size() <= 2;
    const int64_t m =
        one_product || kernel_.output.size() < 2 ? rows : kernel_.output[kernel_.output.size() - 2];
    if (m <= 0) return;
    overflow_ |= outputs.overflow;
    SetGemm(Count{m}, n, Count{k}, Count{rows / m});
  }

  // LSTM, GRU, RNN: per step and direction, the gates' product of input and state.
  void CountRecurrent() {
    const Shape x = InputShape(0), w = InputShape(1), r = InputShape(2);
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) return;
    SetGemm(Count{x[1]}, Count{w[1]}, Count{w[2]} + Count{r[2]}, Count{x[0]} * Count{w[0]});
  }

  // softmax(Q Kᵀ) V with the heads as a batch, and, where the operator holds them, the projections.
  void CountAttention() {
    const Shape query = InputShape(0);
    if (query.size() != 3) return;
    const Shape second = InputShape(1);
    const bool projects =
        node_.inputs.size() > 1 && node_.inputs[1] != kAbsent && TensorAt(node_.inputs[1]).constant;
    const int64_t sequence = query[1];
    const int64_t keys = !projects && second.size() == 3 ? second[1] : sequence;
    const int64_t width = kernel_.output.empty() ? query[2] : kernel_.output.back();
    const auto heads_at = node_.attributes.find("num_heads");
    const int64_t heads =
        std::max<int64_t>(1, heads_at == node_.attributes.end() ? 1 : heads_at->second);
    SetGemm(Count{sequence}, Count{keys}, Count{width / heads} * Count{2},
            Count{query[0]} * Count{heads});
    if (projects && second.size() == 2) {
      kernel_.flops = Keep(Count{kernel_.flops} + Count{2} * Product(query) * Count{second[1]});
    }
  }

  const Graph& graph_;
  const Node& node_;
  const Precision precision_;
  const int64_t batch_;
  const Operator& operator_;
  Kernel kernel_;
  bool overflow_ = false;
};

bool IsProduct(OpClass c) {
  return c == OpClass::kConv || c == OpClass::kDepthwiseConv || c == OpClass::kGroupedConv ||
         c == OpClass::kGemm;
}

}  // namespace

std::optional<int64_t> TensorBytes(const Tensor& tensor, Precision precision, int64_t batch) {
  const auto shape = At(tensor.shape, batch);
  if (!shape) return std::nullopt;
  const auto count = ElementCount(*shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, int64_t{Width(tensor.type, precision)}, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

Result<Kernel> ResolveKernel(const Graph& graph, const Node& node, Precision precision,
                             int64_t batch) {
  return Resolver(graph, node, precision, batch).Run();
}

Result<ModelKernels> Resolve(const Graph& graph, Runtime runtime, Precision precision,
                             int64_t batch) {
  HASE_RETURN_IF_ERROR(graph.CheckBatch(batch));
  ModelKernels model{.model = graph.model,
                     .runtime = runtime,
                     .precision = precision,
                     .batch = batch,
                     .kernels = {},
                     .params = graph.params,
                     .macs = 0,
                     .memory = {}};
  Count macs;
  Count flops;
  std::vector<Reuse> reuse;
  if (runtime == Runtime::kOrtCpu) {
    BufferPlan plan(graph, precision, batch);
    HASE_RETURN_IF_ERROR(plan.Make());
    reuse = ReuseOf(graph, plan, precision, batch);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.silent) continue;
    HASE_ASSIGN_OR_RETURN(Kernel kernel, ResolveKernel(graph, node, precision, batch));
    flops = flops + Count{kernel.flops};
    if (IsProduct(kernel.op_class)) macs = macs + Count{kernel.flops / 2};
    if (macs.overflow || flops.overflow) {
      return Invalid(fmt::format("node '{}': the model's total work overflows 64 bits at batch {}",
                                 node.name, batch));
    }
    if (!reuse.empty()) kernel.reuse = reuse[i];
    model.kernels.push_back(std::move(kernel));
  }
  model.macs = macs.value;
  HASE_ASSIGN_OR_RETURN(model.memory, ResolveMemory(graph, runtime, precision, batch));
  return model;
}

}  // namespace hase::model

#include "model/graph.h"

#include <fmt/format.h>

namespace hase::model {

std::optional<int64_t> Dim::At(int64_t batch) const {
  int64_t value = 0;
  if (__builtin_mul_overflow(per_batch, batch, &value) ||
      __builtin_add_overflow(value, fixed, &value) || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<Shape> At(const SymbolicShape& shape, int64_t batch) {
  Shape fixed;
  fixed.reserve(shape.size());
  for (const Dim& dim : shape) {
    const auto value = dim.At(batch);
    if (!value) return std::nullopt;
    fixed.push_back(*value);
  }
  return fixed;
}

namespace {

// Follows the graph in execution order and complains of the first tensor read before it is made.
class Walk {
 public:
  explicit Walk(const Graph& graph) : graph_(graph), made_(graph.tensors.size(), false) {}

  Status Run() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) made_[i] = graph_.tensors[i].constant;
    for (const int input : graph_.inputs) HASE_RETURN_IF_ERROR(Make(input, "the model's inputs"));
    for (const Node& node : graph_.nodes) {
      const std::string where = fmt::format("node '{}' ({})", node.name, node.op);
      for (const int input : node.inputs) {
        if (input == kAbsent) continue;
        HASE_RETURN_IF_ERROR(InRange(input, where));
        if (!made_[static_cast<size_t>(input)]) {
          return Invalid(fmt::format("{} reads tensor {} before any node makes it", where, input));
        }
      }
      for (const int output : node.outputs) {
        if (output != kAbsent) HASE_RETURN_IF_ERROR(Make(output, where));
      }
    }
    for (const int output : graph_.outputs) {
      HASE_RETURN_IF_ERROR(InRange(output, "the model's outputs"));
      if (!made_[static_cast<size_t>(output)]) {
        return Invalid(fmt::format("output tensor {} is made by no node", output));
      }
    }
    return {};
  }

 private:
  Status InRange(int tensor, std::string_view where) const {
    if (tensor >= 0 && static_cast<size_t>(tensor) < graph_.tensors.size()) return {};
    return Invalid(fmt::format("{} names tensor {}, of which there are {}", where, tensor,
                               graph_.tensors.size()));
  }
  Status Make(int tensor, std::string_view where) {
    HASE_RETURN_IF_ERROR(InRange(tensor, where));
    if (made_[static_cast<size_t>(tensor)]) {
      return Invalid(fmt::format("{} makes tensor {}, which exists already", where, tensor));
    }
    made_[static_cast<size_t>(tensor)] = true;
    return {};
  }

  const Graph& graph_;
  std::vector<bool> made_;
};

}  // namespace

Status Graph::Check() const {
  if (params < 0) return Invalid("params is negative");
  if (inputs.size() != input_names.size())
    return Invalid("inputs and input_names differ in number");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto shape = At(tensors[i].shape, fixed_batch.value_or(1));
    if (!shape || !ElementCount(*shape)) {
      return Invalid(
          fmt::format("tensor {}: its shape is negative or overflows 64 bits at batch {}", i,
                      fixed_batch.value_or(1)));
    }
  }
  return Walk(*this).Run();
}

std::vector<int> Graph::CountUses() const {
  std::vector<int> uses(tensors.size(), 0);
  for (const Node& node : nodes) {
    for (const int input : node.inputs) {
      if (input != kAbsent) ++uses[static_cast<size_t>(input)];
    }
  }
  for (const int output : outputs) ++uses[static_cast<size_t>(output)];
  return uses;
}

Status Graph::CheckBatch(int64_t batch) const {
  if (batch < 1) return Usage(fmt::format("batch {}: must be at least 1", batch));
  if (fixed_batch && *fixed_batch != batch) {
    return Usage(fmt::format(
        "model '{}': input '{}' is fixed to batch {}, batch {} was asked; export it with a "
        "symbolic batch, or ask for {}",
        model, input_names.empty() ? "" : input_names.front(), *fixed_batch, batch, *fixed_batch));
  }
  return {};
}

}  // namespace hase::model

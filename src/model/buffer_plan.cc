#include "model/buffer_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/operators.h"
#include "model/resolve.h"

namespace hase::model {

BufferPlan::BufferPlan(const Graph& graph, Precision precision, int64_t batch)
    : graph_(graph),
      precision_(precision),
      batch_(batch),
      buffer_(graph.tensors.size(), kAbsent),
      uses_(graph.CountUses()) {}

Status BufferPlan::Make() {
  for (const int input : graph_.inputs) Own(input, {.holders = 1});
  for (now_ = 0; now_ < graph_.nodes.size(); ++now_) {
    const Node& node = graph_.nodes[now_];
    for (const int output : node.outputs) {
      if (output != kAbsent) HASE_RETURN_IF_ERROR(Assign(node, output));
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

void BufferPlan::Own(int tensor, Buffer buffer) {
  buffer_[static_cast<size_t>(tensor)] = static_cast<int>(buffers_.size());
  buffers_.push_back(buffer);
  live_ += buffer.bytes;
}

void BufferPlan::Share(int tensor, int buffer) {
  buffer_[static_cast<size_t>(tensor)] = buffer;
  ++buffers_[static_cast<size_t>(buffer)].holders;
}

void BufferPlan::Drop(int tensor) {
  const int index = buffer_[static_cast<size_t>(tensor)];
  if (index == kAbsent) return;  // a constant
  Buffer& buffer = buffers_[static_cast<size_t>(index)];
  if (--buffer.holders > 0) return;
  live_ -= buffer.bytes;
  buffer.last = now_;
  if (buffer.like) free_.push_back(index);
}

void BufferPlan::Release(int tensor) {
  if (--uses_[static_cast<size_t>(tensor)] == 0) Drop(tensor);
}

// The buffer of an input that this output can take over, if any.
std::optional<int> BufferPlan::Takeover(const Node& node, int64_t bytes) const {
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
std::optional<int> BufferPlan::Again(const Tensor& tensor) {
  for (auto it = free_.rbegin(); it != free_.rend(); ++it) {
    const Tensor& like = *buffers_[static_cast<size_t>(*it)].like;
    if (like.shape != tensor.shape || like.type != tensor.type) continue;
    const int index = *it;
    free_.erase(std::next(it).base());
    return index;
  }
  return std::nullopt;
}

Status BufferPlan::Assign(const Node& node, int output) {
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

BufferPlan::Placed BufferPlan::Place() const {
  constexpr int kRuns = 3;
  const size_t nodes = graph_.nodes.size();
  std::vector<std::vector<int>> begin(nodes), end(nodes + 1);
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].like || buffers_[b].bytes == 0) continue;
    begin[buffers_[b].first].push_back(static_cast<int>(b));
    end[buffers_[b].last].push_back(static_cast<int>(b));
  }
  Arena arena;
  Placed placed{.address = std::vector<int64_t>(buffers_.size(), -1)};
  std::vector<int> chunk(buffers_.size(), -1);
  for (int run = 0; run < kRuns; ++run) {
    for (size_t n = 0; n <= nodes; ++n) {
      if (n < nodes) {
        for (const int b : begin[n]) {
          const auto i = static_cast<size_t>(b);
          chunk[i] = arena.Allocate(buffers_[i].bytes);
          placed.address[i] = arena.address(chunk[i]);
        }
      }
      for (const int b : end[n]) arena.Free(chunk[static_cast<size_t>(b)]);
    }
  }
  placed.reserved = arena.reserved();
  return placed;
}

}  // namespace hase::model

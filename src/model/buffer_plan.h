// BufferPlan: which tensors share a buffer, and when each buffer is held. As ONNX Runtime plans it:
// a reshape's output is its input's buffer, an element-wise kernel takes over an input of the same
// size whose last reader it is, and else a tensor takes a buffer of its very shape that has fallen
// free before. Buffers come to lie in the arena (arena.h) in the order of their first holders.
//
// Borrows the graph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/arena.h"
#include "model/graph.h"

namespace hase::model {

class BufferPlan {
 public:
  struct Buffer {
    int64_t bytes = 0;
    int holders = 0;               // tensors in it that are still to be read
    const Tensor* like = nullptr;  // whose shape it has; null = the caller's memory
    size_t first = 0, last = 0;    // the nodes it is held from and to
  };

  BufferPlan(const Graph& graph, Precision precision, int64_t batch);

  // An error naming the node on overflow.
  Status Make();

  int64_t peak() const { return peak_; }  // greatest sum of live tensors
  const std::vector<Buffer>& buffers() const { return buffers_; }
  // The buffer that holds a tensor; kAbsent for constants.
  int buffer_of(int tensor) const { return buffer_[static_cast<size_t>(tensor)]; }

  // Where the arena puts them, and what it holds, after a few runs: a later run finds other regions
  // free than the first did.
  struct Placed {
    int64_t reserved = 0;
    std::vector<int64_t> address;  // per buffer; -1 = the caller's memory, or empty
  };
  Placed Place() const;

 private:
  void Own(int tensor, Buffer buffer);
  void Share(int tensor, int buffer);
  void Drop(int tensor);
  void Release(int tensor);
  std::optional<int> Takeover(const Node& node, int64_t bytes) const;
  std::optional<int> Again(const Tensor& tensor);
  Status Assign(const Node& node, int output);

  const Graph& graph_;
  const Precision precision_;
  const int64_t batch_;
  std::vector<int> buffer_;  // per tensor
  std::vector<int> uses_;
  std::vector<Buffer> buffers_;
  std::vector<int> free_;  // in the order they fell free
  size_t now_ = 0;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace hase::model

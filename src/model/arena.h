// Arena: how ONNX Runtime's CPU arena (a best-fit allocator with coalescing, set to grow by what is
// asked for) comes to hold a sequence of buffers. A model's tensors grow and shrink along its graph
// and a freed region serves a later tensor only if it is large enough, so the arena of a network of
// ever wider concatenations is several times the greatest sum of live tensors.
//
// Rules, as documented for the allocator: sizes are rounded up to 256 bytes; the smallest free
// chunk that fits is taken, and split if it is at least twice the size (or 128 MiB larger); a free
// chunk merges with free neighbours of its region; where none fits, a region of exactly the size is
// added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace hase::model {

class Arena {
 public:
  int Allocate(int64_t bytes);  // bytes >= 0; a handle for Free
  void Free(int handle);

  // Where an allocated buffer lies; regions do not touch each other.
  int64_t address(int handle) const { return chunks_[static_cast<size_t>(handle)].address; }
  // Bytes of all regions. Each was added for a buffer of its size, so all of it is resident.
  int64_t reserved() const { return reserved_; }

 private:
  struct Chunk {
    int64_t size = 0;
    bool free = false;
    int previous = -1, next = -1;  // neighbours in the region
    int64_t address = 0;
  };

  int Extend(int64_t size);
  void Split(int chunk, int64_t size);
  void Merge(int chunk, int with_next);

  std::vector<Chunk> chunks_;
  std::set<std::pair<int64_t, int>> free_;  // (size, chunk)
  int64_t reserved_ = 0;
  int64_t end_ = 0;  // of the last region
};

}  // namespace hase::model

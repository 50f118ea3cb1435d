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

  // Bytes of all regions, and of those pages that any buffer ever reached: what is resident.
  int64_t reserved() const { return reserved_; }
  int64_t touched() const;

 private:
  static constexpr int64_t kPage = int64_t{64} << 10;  // coarse: regions are megabytes
  struct Chunk {
    int region = 0;
    int64_t offset = 0, size = 0;
    bool free = false;
    int previous = -1, next = -1;  // neighbours in the region
  };

  int Extend(int64_t size);
  void Split(int chunk, int64_t size);
  void Merge(int chunk, int with_next);
  void Touch(const Chunk& chunk, int64_t bytes);

  std::vector<Chunk> chunks_;
  std::set<std::pair<int64_t, int>> free_;  // (size, chunk)
  std::vector<std::vector<bool>> pages_;    // per region
  int64_t reserved_ = 0, huge_ = 0;
};

}  // namespace hase::model

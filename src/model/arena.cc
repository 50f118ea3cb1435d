#include "model/arena.h"

#include <algorithm>

#include "base/check.h"

namespace hase::model {
namespace {

constexpr int64_t kSmallest = 256;
constexpr int64_t kMostWaste = int64_t{128} << 20;
constexpr int64_t kGap = int64_t{1} << 20;   // between regions
constexpr int64_t kMost = int64_t{1} << 61;  // beyond any machine: sums stop here

}  // namespace

int Arena::Allocate(int64_t bytes) {
  const int64_t size = std::max(kSmallest, (bytes + kSmallest - 1) / kSmallest * kSmallest);
  const auto fit = free_.lower_bound({size, -1});
  int index = 0;
  if (fit == free_.end()) {
    index = Extend(size);
  } else {
    index = fit->second;
    free_.erase(fit);
    const int64_t have = chunks_[static_cast<size_t>(index)].size;
    if (have >= 2 * size || have - size >= kMostWaste) Split(index, size);
  }
  chunks_[static_cast<size_t>(index)].free = false;
  return index;
}

void Arena::Free(int handle) {
  Chunk& chunk = chunks_[static_cast<size_t>(handle)];
  HASE_CHECK(!chunk.free);
  chunk.free = true;
  if (chunk.next >= 0 && chunks_[static_cast<size_t>(chunk.next)].free) {
    free_.erase({chunks_[static_cast<size_t>(chunk.next)].size, chunk.next});
    Merge(handle, chunk.next);
  }
  const int previous = chunk.previous;
  if (previous >= 0 && chunks_[static_cast<size_t>(previous)].free) {
    free_.erase({chunks_[static_cast<size_t>(previous)].size, previous});
    Merge(previous, handle);
    handle = previous;
  }
  free_.insert({chunks_[static_cast<size_t>(handle)].size, handle});
}

int Arena::Extend(int64_t size) {
  chunks_.push_back({.size = size, .address = end_});
  end_ = std::min(end_ + std::min(size, kMost) + kGap, kMost);
  reserved_ = std::min(reserved_ + std::min(size, kMost), kMost);
  return static_cast<int>(chunks_.size()) - 1;
}

void Arena::Split(int index, int64_t size) {
  const int rest = static_cast<int>(chunks_.size());
  Chunk tail = chunks_[static_cast<size_t>(index)];
  tail.size -= size;
  tail.address += size;
  tail.free = true;
  tail.previous = index;
  if (tail.next >= 0) chunks_[static_cast<size_t>(tail.next)].previous = rest;
  chunks_.push_back(tail);
  chunks_[static_cast<size_t>(index)].size = size;
  chunks_[static_cast<size_t>(index)].next = rest;
  free_.insert({tail.size, rest});
}

// `with_next`, the right neighbour of `chunk`, joins it; neither is in the free list.
void Arena::Merge(int chunk, int with_next) {
  Chunk& left = chunks_[static_cast<size_t>(chunk)];
  const Chunk& right = chunks_[static_cast<size_t>(with_next)];
  left.size += right.size;
  left.next = right.next;
  if (right.next >= 0) chunks_[static_cast<size_t>(right.next)].previous = chunk;
}

}  // namespace hase::model

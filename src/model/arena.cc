#include "model/arena.h"

#include <algorithm>

#include "base/check.h"

namespace hase::model {
namespace {

constexpr int64_t kSmallest = 256;
constexpr int64_t kMostWaste = int64_t{128} << 20;
// Beyond any machine: such a region is taken to be touched whole, and sums stop here.
constexpr int64_t kHuge = int64_t{1} << 38, kMost = int64_t{1} << 61;

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
  Chunk& chunk = chunks_[static_cast<size_t>(index)];
  chunk.free = false;
  Touch(chunk, size);
  return index;
}

void Arena::Free(int handle) {
  Chunk& chunk = chunks_[static_cast<size_t>(handle)];
  HASE_CHECK(!chunk.free);
  chunk.free = true;
  if (chunk.next >= 0 && chunks_[static_cast<size_t>(chunk.next)].free) Merge(handle, chunk.next);
  const int previous = chunks_[static_cast<size_t>(handle)].previous;
  if (previous >= 0 && chunks_[static_cast<size_t>(previous)].free) {
    free_.erase({chunks_[static_cast<size_t>(previous)].size, previous});
    free_.insert({chunks_[static_cast<size_t>(handle)].size, handle});
    Merge(previous, handle);
    handle = previous;
  }
  free_.insert({chunks_[static_cast<size_t>(handle)].size, handle});
}

int64_t Arena::touched() const {
  int64_t pages = 0;
  for (const auto& region : pages_) pages += std::count(region.begin(), region.end(), true);
  return std::min(pages * kPage + huge_, reserved_);
}

int Arena::Extend(int64_t size) {
  const int region = static_cast<int>(pages_.size());
  const bool huge = size > kHuge;
  pages_.emplace_back(huge ? 0 : static_cast<size_t>((size + kPage - 1) / kPage), false);
  chunks_.push_back({.region = region, .offset = 0, .size = size});
  reserved_ = std::min(reserved_ + std::min(size, kMost), kMost);
  if (huge) huge_ = std::min(huge_ + std::min(size, kMost), kMost);
  return static_cast<int>(chunks_.size()) - 1;
}

void Arena::Split(int index, int64_t size) {
  const int rest = static_cast<int>(chunks_.size());
  Chunk tail = chunks_[static_cast<size_t>(index)];
  tail.offset += size;
  tail.size -= size;
  tail.free = true;
  tail.previous = index;
  if (tail.next >= 0) chunks_[static_cast<size_t>(tail.next)].previous = rest;
  chunks_.push_back(tail);
  chunks_[static_cast<size_t>(index)].size = size;
  chunks_[static_cast<size_t>(index)].next = rest;
  free_.insert({tail.size, rest});
}

// `with_next` joins `chunk`, whose right neighbour it is, and is in the free list.
void Arena::Merge(int chunk, int with_next) {
  Chunk& left = chunks_[static_cast<size_t>(chunk)];
  const Chunk& right = chunks_[static_cast<size_t>(with_next)];
  free_.erase({right.size, with_next});
  left.size += right.size;
  left.next = right.next;
  if (right.next >= 0) chunks_[static_cast<size_t>(right.next)].previous = chunk;
}

void Arena::Touch(const Chunk& chunk, int64_t bytes) {
  auto& pages = pages_[static_cast<size_t>(chunk.region)];
  if (pages.empty()) return;
  const auto first = pages.begin() + chunk.offset / kPage;
  const auto last = pages.begin() + (chunk.offset + bytes + kPage - 1) / kPage;
  std::fill(first, std::min(last, pages.end()), true);
}

}  // namespace hase::model

// HugePages: an allocator for large arrays that are read all over: where the system gives large
// pages on request (Linux, `madvise`), every read is spared a look-up of its page. Elsewhere, and
// for arrays below a large page, plain memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace hase {

template <typename T>
struct HugePages {
  using value_type = T;
  static constexpr size_t kPage = size_t{2} << 20;

  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U>&) {}  // NOLINT(google-explicit-constructor): allocators convert

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (count > static_cast<size_t>(-1) / sizeof(T) - kPage) throw std::bad_alloc();
    const bool large = bytes >= kPage;
    const size_t unit = large ? kPage : alignof(std::max_align_t);
    const size_t whole = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, whole);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (large) (void)madvise(memory, whole, MADV_HUGEPAGE);  // advice: it may be refused
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  template <typename U>
  bool operator==(const HugePages<U>&) const {
    return true;
  }
};

}  // namespace hase

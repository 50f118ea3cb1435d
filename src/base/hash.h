// FNV-1a, 64 bit: the hash of formats.md (geometry buckets, row digests). Stable for ever.
#pragma once

#include <cstdint>
#include <string_view>

namespace hase {

constexpr uint64_t Fnv1a64(std::string_view text, uint64_t seed = 0xcbf29ce484222325ULL) {
  uint64_t hash = seed;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace hase

// HASE_CHECK(condition, "format {}", value…): a broken invariant of our own aborts with its values.
// Never for input: input that is wrong is a Result.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace hase::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition,
                                     const std::string& values) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s %s\n", file, line, condition, values.c_str());
  std::abort();
}
}  // namespace hase::internal

#define HASE_CHECK(condition, ...)                                  \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::hase::internal::CheckFailed(__FILE__, __LINE__, #condition, \
                                    ::fmt::format("" __VA_ARGS__)); \
  } while (0)

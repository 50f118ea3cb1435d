#include "model/arena.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace hase::model {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Arena, AFreedRegionServesWhatFits) {
  Arena arena;
  const int a = arena.Allocate(4 * kMiB);
  arena.Free(a);
  const int b = arena.Allocate(3 * kMiB);  // not half of it: taken whole, a quarter idle
  EXPECT_EQ(arena.reserved(), 4 * kMiB);
  const int c = arena.Allocate(kMiB / 2);
  EXPECT_EQ(arena.reserved(), 4 * kMiB + kMiB / 2);
  arena.Free(b);
  arena.Free(c);
}

TEST(Arena, SplitsALargeRegionAndMergesItAgain) {
  Arena arena;
  arena.Free(arena.Allocate(8 * kMiB));
  const int a = arena.Allocate(2 * kMiB), b = arena.Allocate(2 * kMiB),
            c = arena.Allocate(2 * kMiB);
  EXPECT_EQ(arena.reserved(), 8 * kMiB);
  arena.Free(a);
  arena.Free(c);
  arena.Free(b);  // joins both sides
  arena.Allocate(8 * kMiB);
  EXPECT_EQ(arena.reserved(), 8 * kMiB);
}

// Why the arena of a densely connected network is several times what is live in it.
TEST(Arena, GrowingTensorsLeaveRegionsTooSmallForTheNext) {
  Arena arena;
  int held = arena.Allocate(kMiB);
  int64_t live = 0;
  for (int64_t width = 2; width <= 8; ++width) {
    const int next = arena.Allocate(width * kMiB);
    live = std::max(live, (2 * width - 1) * kMiB);
    arena.Free(held);
    held = next;
  }
  EXPECT_EQ(live, 15 * kMiB);
  EXPECT_EQ(arena.reserved(), (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) * kMiB);
}

TEST(Arena, RandomUseKeepsItsSums) {
  Arena arena;
  Rng rng(7);
  std::vector<std::pair<int, int64_t>> held;
  int64_t live = 0, most = 0;
  for (int i = 0; i < 5000; ++i) {
    if (held.empty() || rng.Uniform(0, 1) < 0.55) {
      const auto bytes = static_cast<int64_t>(rng.Uniform(1, 3e6));
      held.emplace_back(arena.Allocate(bytes), bytes);
      live += bytes;
    } else {
      const auto at = static_cast<size_t>(rng.Uniform(0, 1) * static_cast<double>(held.size()));
      arena.Free(held[at].first);
      live -= held[at].second;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    most = std::max(most, live);
    ASSERT_GE(arena.reserved(), live);
  }
  EXPECT_GE(arena.reserved(), most);
  EXPECT_LT(arena.reserved(), 2 * most);  // freed regions serve again
  for (const auto& [handle, bytes] : held) arena.Free(handle);
  const int64_t before = arena.reserved();
  arena.Allocate(1);  // all is free: nothing grows
  EXPECT_EQ(arena.reserved(), before);
}

TEST(Arena, SizesBeyondAnyMachineStayFinite) {
  Arena arena;
  for (int i = 0; i < 8; ++i) arena.Allocate(int64_t{1} << 60);
  EXPECT_EQ(arena.reserved(), int64_t{1} << 61);
}

}  // namespace
}  // namespace hase::model

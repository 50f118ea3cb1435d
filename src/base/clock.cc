#include "base/clock.h"

#include <chrono>

namespace hase {
namespace {
Nanos Monotonic() {
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count());
}
}  // namespace

SystemClock::SystemClock(Nanos already_elapsed) : origin_(Monotonic() - already_elapsed) {}
Nanos SystemClock::Now() const { return Monotonic() - origin_; }

}  // namespace hase

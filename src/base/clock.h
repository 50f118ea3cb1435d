// Clock: the only way HASE reads time. Live runs take SystemClock, simulations ManualClock; the
// engine cannot tell them apart.
#pragma once

#include "base/units.h"

namespace hase {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos Now() const = 0;  // since the clock's own start; never goes back
};

class ManualClock : public Clock {
 public:
  Nanos Now() const override { return now_; }
  void AdvanceTo(Nanos t) {
    if (t > now_) now_ = t;
  }

 private:
  Nanos now_;
};

// CLOCK_MONOTONIC since construction (or since `origin`, for a resumed run).
class SystemClock : public Clock {
 public:
  explicit SystemClock(Nanos already_elapsed = Nanos(0));
  Nanos Now() const override;

 private:
  Nanos origin_;
};

}  // namespace hase

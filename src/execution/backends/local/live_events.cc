// A heap under a mutex; waiting is on a condition variable with the time of the earliest event.
#include "execution/backends/local/live_events.h"

#include <chrono>

namespace hase::execution {

void LiveEvents::Post(Happening what) { At(clock_.Now(), std::move(what)); }

void LiveEvents::At(Nanos time, Happening what) {
  {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<RunFinished>(what) || std::holds_alternative<RunFailed>(what))
      --expected_;
    queue_.push({.time = time, .seq = posted_++, .what = std::move(what)});
  }
  changed_.notify_one();
}

void LiveEvents::Expect() {
  const std::lock_guard lock(mutex_);
  ++expected_;
}

std::optional<Event> LiveEvents::Next(std::optional<Nanos> until) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closed_) return std::nullopt;
    const Nanos now = clock_.Now();
    if (!queue_.empty() && queue_.top().time <= now) {
      Event event = queue_.top();
      queue_.pop();
      return event;
    }
    if (until && *until <= now) return std::nullopt;
    if (!until && queue_.empty() && expected_ == 0) return std::nullopt;
    std::optional<Nanos> wake = until;
    if (!queue_.empty() && (!wake || queue_.top().time < *wake)) wake = queue_.top().time;
    if (wake) {
      changed_.wait_for(lock, std::chrono::nanoseconds((*wake - now).value()));
    } else {
      changed_.wait(lock);
    }
  }
}

void LiveEvents::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

bool LiveEvents::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace hase::execution

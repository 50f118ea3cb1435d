// LiveEvents: the engine's one queue in a live run. Any thread posts; the engine's thread waits in
// Next without spending processor time (it shares the machine with the work it schedules). Times
// come from the run's clock, ties are broken by order of posting.
//
// It knows how many runs are still to end (Expect), so that waiting without a limit ends with
// nullopt, as a simulation's would, where nothing can come any more.
#pragma once

#include <condition_variable>
#include <mutex>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "execution/executor.h"

namespace hase::execution {

class LiveEvents : public EventSource {
 public:
  explicit LiveEvents(const Clock& clock) : clock_(clock) {}

  void Post(Happening what);            // happens now
  void At(Nanos time, Happening what);  // happens then (an arrival); not before
  void Expect();                        // one more run will end: RunFinished or RunFailed
  std::optional<Event> Next(std::optional<Nanos> until) override;
  // From now on Next gives nothing and returns at once: the run is being ended from outside.
  void Close();
  bool closed() const;

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.seq > b.seq;
    }
  };
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  uint64_t posted_ = 0;
  int expected_ = 0;
  bool closed_ = false;
};

}  // namespace hase::execution

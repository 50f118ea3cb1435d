// Watcher: a thread that reads this machine's counters every second or so during a live run and
// tells the engine what strangers do on each CPU device (what HASE itself runs is not a stranger).
// No probe: it would run on cores whose jobs are being timed; so only the cores' time counts, not
// memory. Where /proc cannot be read it says nothing and the ledger alone counts.
#pragma once

#include <thread>

#include "cluster/device.h"
#include "execution/backends/local/live_events.h"

namespace hase::live {

class Watcher {
 public:
  // Borrows both; stops with this object.
  Watcher(const cluster::Cluster& cluster, execution::LiveEvents& events, double interval_s = 2);

 private:
  std::jthread thread_;
};

}  // namespace hase::live

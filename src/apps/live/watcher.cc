#include "apps/live/watcher.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cluster/telemetry/cpu.h"
#include "latency/cpu_load.h"

namespace hase::live {
namespace {

void Watch(const std::stop_token& stop, const cluster::Cluster& cluster,
           execution::LiveEvents& events, double interval_s) {
  const auto source = cluster::telemetry::MakeCpu(cluster::telemetry::CpuOptions{});
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    const auto snapshot = source->Poll();
    for (const auto& device : cluster.devices) {
      if (!snapshot || device.cpu_cores.empty()) continue;
      const auto load = latency::CpuForeignLoad(*snapshot, device.cpu_cores, {});
      // What is not valid is told too: the last stranger must not stay in force for ever.
      events.Post(execution::ForeignSeen{device.id, load});
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::duration<double>(interval_s), [] { return false; });
  }
}

}  // namespace

Watcher::Watcher(const cluster::Cluster& cluster, execution::LiveEvents& events, double interval_s)
    : thread_([&cluster, &events, interval_s](const std::stop_token& stop) {
        Watch(stop, cluster, events, interval_s);
      }) {}

}  // namespace hase::live

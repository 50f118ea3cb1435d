#include "world/lifetimes.h"

#include <algorithm>
#include <numeric>

namespace hase::world {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Lifetimes LifetimesOf(std::span<const ServingInstance> instances, const ServingTruth& truth) {
  Lifetimes result;
  result.of.resize(instances.size());
  std::vector<Bytes> memory(instances.size());
  std::vector<size_t> order(instances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return instances[a].ready_s < instances[b].ready_s; });
  std::vector<size_t> begun;
  for (const size_t i : order) {
    const ServingInstance& instance = instances[i];
    memory[i] = truth.Memory(instance.server) * instance.processes;
    const Bytes room = truth.DeviceMemory(instance.server.device);
    double start = instance.ready_s;
    bool delayed = false, gap = false;
    while (start < kNever) {
      Bytes used = memory[i];
      double next = kNever;  // when somebody leaves
      for (const size_t j : begun) {
        if (instances[j].server.device != instance.server.device) continue;
        const Lifetime& other = result.of[j];
        if (gap && instance.replaces == j) continue;
        if (other.start_s > start || other.to_s <= start) continue;
        used += memory[j];
        next = std::min(next, other.to_s);
      }
      if (used <= room) break;
      const bool frees_here = instance.replaces &&
                              instances[*instance.replaces].server.device == instance.server.device;
      if (frees_here && !gap) {
        gap = true;
        continue;
      }
      delayed = true;
      start = next;
    }
    const double load = instance.cold ? truth.LoadSeconds(instance.server) : 0;
    Lifetime& mine = result.of[i];
    mine = {start, start + load, instance.closed_s.value_or(kNever)};
    if (instance.replaces) {
      Lifetime& old = result.of[*instance.replaces];
      old.to_s = std::min(old.to_s, gap ? start : mine.from_s);
    }
    result.delayed_starts += delayed;
    result.gaps += gap;
    if (start < kNever) result.loading_s += load;
    begun.push_back(i);
  }
  return result;
}

}  // namespace hase::world

// least-loaded: each arriving job is bound to the device with the least predicted work before it
// (running and bound), and waits there. Unlike mct it does not ask how fast the job itself would
// be. Source: join the least-work-left queue, Harchol-Balter, "Performance Modeling and Design of
// Computer Systems" (2013), chapter 24.
#include <algorithm>

#include "placement/policies/bound_queue.h"
#include "placement/policies/factories.h"

namespace hase::placement {
namespace {

class LeastLoaded final : public BoundQueue {
 public:
  using BoundQueue::BoundQueue;

 private:
  double WorkLeft(const PlanningView& view, const DeviceState& device) const {
    double work = 0;
    for (const Resident& r : device.residents) {
      if (r.left) work += r.left->mean_s;
    }
    for (const QueuedJob& waiting : view.queue) {
      if (!IsBound(waiting.id)) continue;
      const auto& on = DevicesOf(waiting.id);
      if (std::ranges::find(on, device.id) == on.end()) continue;
      if (const auto time = SoloTime(view, waiting, waiting.inputs_left, device)) {
        work += time->mean_s;
      }
    }
    return work;
  }

  std::vector<DeviceId> Choose(const PlanningView& view, const QueuedJob& job) override {
    std::vector<std::pair<double, DeviceId>> by_work;
    for (const DeviceState& device : view.devices) {
      if (!device.up || EverFits(view, job, device) != Obstacle::kNone) continue;
      by_work.emplace_back(WorkLeft(view, device), device.id);
    }
    const size_t gang = static_cast<size_t>(job.gang);
    if (by_work.size() < gang) return {};
    std::ranges::stable_sort(by_work, {}, &std::pair<double, DeviceId>::first);
    std::vector<DeviceId> chosen;
    for (size_t k = 0; k < gang; ++k) chosen.push_back(by_work[k].second);
    return chosen;
  }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeLeastLoaded(std::string_view options) {
  OptionText text("least-loaded", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<LeastLoaded>(sharing);
}

}  // namespace hase::placement

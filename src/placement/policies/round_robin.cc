// round-robin: each arriving job goes to the next admissible device in cyclic order and waits for
// it in that device's own queue. The baseline of the HASE paper, and what DNS, nginx and most
// dispatchers do by default. Knows nothing of speed or length. A job bound to a device that goes
// down is bound anew.
#include "placement/policies/bound_queue.h"
#include "placement/policies/factories.h"

namespace hase::placement {
namespace {

class RoundRobin final : public BoundQueue {
 public:
  using BoundQueue::BoundQueue;

 private:
  std::vector<DeviceId> Choose(const PlanningView& view, const QueuedJob& job) override {
    std::vector<DeviceId> chosen;
    const size_t n = view.devices.size();
    size_t at = next_;
    for (size_t step = 0; step < n && chosen.size() < static_cast<size_t>(job.gang); ++step) {
      const DeviceState& device = view.devices[at % n];
      at = (at + 1) % n;
      if (device.up && EverFits(view, job, device) == Obstacle::kNone) chosen.push_back(device.id);
    }
    if (chosen.size() < static_cast<size_t>(job.gang)) return {};
    next_ = at;
    return chosen;
  }

  size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeRoundRobin(std::string_view options) {
  OptionText text("round-robin", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<RoundRobin>(sharing);
}

}  // namespace hase::placement

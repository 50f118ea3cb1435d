// least-allocated: in order of arrival, each job on the free device that keeps most memory and
// share free after it. Source: Kubernetes' NodeResourcesFit scoring strategy LeastAllocated (its
// default), with memory and share weighted alike. Knows nothing of speed.
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class LeastAllocated final : public Greedy {
 public:
  explicit LeastAllocated(bool sharing) : Greedy(sharing, /*strict=*/false) {}

 private:
  double Score(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
               const Slot& slot) override {
    const DeviceState& device = view.devices[slot.device.index()];
    const Bytes need = MemoryOn(view, job, device.type).value_or(Bytes(0));
    const double memory = 1 - Ratio(book.MemoryFree(device) - need, device.memory_total);
    const double share = ToFraction(kWholeDevice - book.ShareFree(device) + slot.share);
    return (memory + share);
  }
  std::string Why() const override { return "keeps most memory and share free"; }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeLeastAllocated(std::string_view options) {
  OptionText text("least-allocated", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<LeastAllocated>(sharing);
}

}  // namespace hase::placement

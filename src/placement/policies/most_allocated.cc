// most-allocated: in order of arrival, each job on the free device that it fills most. Source:
// Kubernetes' NodeResourcesFit scoring strategy MostAllocated (bin packing), with memory and share
// weighted alike. Knows nothing of speed.
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class MostAllocated final : public Greedy {
 public:
  explicit MostAllocated(bool sharing) : Greedy(sharing, /*strict=*/false) {}

 private:
  double Score(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
               const Slot& slot) override {
    const DeviceState& device = view.devices[slot.device.index()];
    const Bytes need = MemoryOn(view, job, device.type).value_or(Bytes(0));
    const double memory = 1 - Ratio(book.MemoryFree(device) - need, device.memory_total);
    const double share = ToFraction(kWholeDevice - book.ShareFree(device) + slot.share);
    return -(memory + share);
  }
  std::string Why() const override { return "fills its memory and share most"; }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeMostAllocated(std::string_view options) {
  OptionText text("most-allocated", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<MostAllocated>(sharing);
}

}  // namespace hase::placement

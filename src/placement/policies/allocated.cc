// least-allocated, most-allocated: in order of arrival, each job on the free device that keeps most
// memory and share free after it, or that it fills most. Source: Kubernetes' NodeResourcesFit
// scoring strategies LeastAllocated (its default) and MostAllocated (bin packing), with memory and
// share weighted alike. Know nothing of speed.
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class Allocated final : public Greedy {
 public:
  Allocated(bool sharing, bool most) : Greedy(sharing, /*strict=*/false), most_(most) {}

 private:
  double Score(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
               const Slot& slot) override {
    const DeviceState& device = view.devices[slot.device.index()];
    const Bytes need = MemoryOn(view, job, device.type).value_or(Bytes(0));
    const double memory = 1 - Ratio(book.MemoryFree(device) - need, device.memory_total);
    const double share = ToFraction(kWholeDevice - book.ShareFree(device) + slot.share);
    return most_ ? -(memory + share) : memory + share;
  }
  std::string Why() const override {
    return most_ ? "fills its memory and share most" : "keeps most memory and share free";
  }

  bool most_;
};

Result<std::unique_ptr<Policy>> Make(std::string_view name, std::string_view options, bool most) {
  OptionText text(name, options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Allocated>(sharing, most);
}

}  // namespace

Result<std::unique_ptr<Policy>> MakeLeastAllocated(std::string_view options) {
  return Make("least-allocated", options, /*most=*/false);
}

Result<std::unique_ptr<Policy>> MakeMostAllocated(std::string_view options) {
  return Make("most-allocated", options, /*most=*/true);
}

}  // namespace hase::placement

// fifo: one queue in order of arrival; its head takes the next free device that can hold it, and
// nobody passes the head. Source: first come, first served, the default of Slurm's builtin
// scheduler (sched/builtin) and the yardstick of Feitelson, "Metrics and benchmarking for parallel
// job scheduling" (1998).
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class Fifo final : public Greedy {
 public:
  explicit Fifo(bool sharing) : Greedy(sharing, /*strict=*/true) {}

 private:
  double Score(const PlanningView&, const PlanBook&, const QueuedJob&, const Slot&) override {
    return 0;
  }
  bool FirstWillDo() const override { return true; }
  std::string Why() const override { return "head of the queue, first free device"; }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeFifo(std::string_view options) {
  OptionText text("fifo", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Fifo>(sharing);
}

}  // namespace hase::placement

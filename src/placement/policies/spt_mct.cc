// spt-mct: shortest predicted job first, each where it finishes first behind those before it.
// Sources: Smith, "Various optimizers for single-stage production" (1956), for the order;
// Maheswaran et al. (1999) for the choice of device.
#include "placement/policies/factories.h"
#include "placement/policies/list_policy.h"

namespace hase::placement {
namespace {

class SptMct final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;

 private:
  double OrderKey(const PlanningView& view, JobTable& table, const QueuedJob& job) override {
    return table.Least(view, job);
  }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeSptMct(std::string_view options) {
  OptionText text("spt-mct", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<SptMct>(sharing);
}

}  // namespace hase::placement

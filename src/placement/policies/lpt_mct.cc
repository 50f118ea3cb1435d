// lpt-mct: longest predicted job first, each where it finishes first behind those before it.
// Sources: Graham, "Bounds on multiprocessing timing anomalies" (1969), for the order; Maheswaran
// et al. (1999) for the choice of device. A job's length is its time on the device that suits it
// best.
#include "placement/policies/factories.h"
#include "placement/policies/list_policy.h"

namespace hase::placement {
namespace {

class LptMct final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;

 private:
  double OrderKey(const PlanningView& view, JobTable& table, const QueuedJob& job) override {
    return -table.Least(view, job);
  }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeLptMct(std::string_view options) {
  OptionText text("lpt-mct", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<LptMct>(sharing);
}

}  // namespace hase::placement

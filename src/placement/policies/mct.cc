// mct: minimum completion time. Jobs in order of arrival, each where it is predicted to finish
// first behind those before it. Source: Maheswaran et al., "Dynamic mapping of a class of
// independent tasks onto heterogeneous computing systems" (1999), MCT heuristic.
#include "placement/policies/factories.h"
#include "placement/policies/list_policy.h"

namespace hase::placement {
namespace {

class Mct final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;

 private:
  double OrderKey(const PlanningView&, JobTable&, const QueuedJob&) override { return 0; }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeMct(std::string_view options) {
  OptionText text("mct", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Mct>(sharing);
}

}  // namespace hase::placement

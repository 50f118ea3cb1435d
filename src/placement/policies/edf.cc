// edf: earliest deadline first, each where it finishes first behind those before it; jobs without a
// deadline come last, in order of arrival. Source: Liu and Layland, "Scheduling algorithms for
// multiprogramming in a hard-real-time environment" (1973).
#include <limits>

#include "placement/policies/factories.h"
#include "placement/policies/list_policy.h"

namespace hase::placement {
namespace {

class Edf final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;

 private:
  double OrderKey(const PlanningView&, JobTable&, const QueuedJob& job) override {
    return job.deadline ? ToSeconds(*job.deadline) : std::numeric_limits<double>::infinity();
  }
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeEdf(std::string_view options) {
  OptionText text("edf", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Edf>(sharing);
}

}  // namespace hase::placement

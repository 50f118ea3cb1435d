// sjf: shortest predicted job first on the free device where it finishes first; it never waits for
// a faster one. Source: Conway, Maxwell and Miller, "Theory of Scheduling" (1967).
#include "placement/frontier.h"
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class Sjf final : public Greedy {
 public:
  explicit Sjf(bool sharing) : Greedy(sharing, /*strict=*/false) {}

 private:
  double OrderKey(const PlanningView& view, const QueuedJob& job) override {
    return table_.Least(view, job);
  }
  double Score(const PlanningView& view, const PlanBook& book, const QueuedJob& job,
               const Slot& slot) override {
    return ToSeconds(FinishIfStarted(view, book, job, slot));
  }
  std::string Why() const override { return "shortest that fits, on its fastest free device"; }

  JobTable table_;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeSjf(std::string_view options) {
  OptionText text("sjf", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Sjf>(sharing);
}

}  // namespace hase::placement

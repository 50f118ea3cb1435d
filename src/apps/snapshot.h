// Snapshots: one decision of a simulation, kept so that it can be made again and looked into
// (`hase simulate --snapshot FILE --snapshot-at T`, `hase explain --state FILE`). A snapshot holds
// the flags that make the same estimator and cluster again, the whole PlanningView, and the plan
// that was decided. The files that the flags name must still be what they were.
//
// Only a policy that keeps nothing but what the view carries decides the same again (policy.h's
// contract; `hase` does). The round-robin family counts what it bound before; its snapshots may
// replay differently, and then say so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/sim_inputs.h"
#include "base/result.h"
#include "placement/policy.h"

namespace hase::apps {

// When: the first decision at or after `at`, or the decision with this number (from 0).
struct SnapshotWhen {
  std::optional<Nanos> at;
  std::optional<int64_t> number;
};
// "12.5" seconds or "#37".
Result<SnapshotWhen> ParseSnapshotWhen(const std::string& text);

// Passes every call on and keeps one of them as text.
class SnapshotPolicy final : public placement::Policy {
 public:
  // All outlive this. `spec` is the policy as named on the command line.
  SnapshotPolicy(placement::Policy& inner, SnapshotWhen when, const SimFlags& flags,
                 std::string spec, const execution::SimCase& sim)
      : inner_(inner), when_(when), flags_(flags), spec_(std::move(spec)), sim_(sim) {}
  placement::Plan Decide(const placement::PlanningView& view) override;
  const std::string& text() const { return text_; }  // empty: that moment never came

 private:
  placement::Policy& inner_;
  SnapshotWhen when_;
  const SimFlags& flags_;
  std::string spec_;
  const execution::SimCase& sim_;
  int64_t number_ = 0;
  std::string text_;
};

// A snapshot read back: the view's spans point into this.
struct Snapshot {
  std::unique_ptr<execution::SimCase> sim;
  std::string policy, plan;  // `plan`: as PlanText
  int64_t number = 0;
  Nanos now;
  std::vector<placement::QueuedJob> queue;
  std::vector<placement::DeviceState> devices;
  std::vector<placement::NodeState> nodes;
  std::vector<placement::PromiseOutcome> promise_outcomes;
  placement::PlanningView View() const;
};
Result<std::unique_ptr<Snapshot>> ReadSnapshot(const std::string& path);

// Every decision with its numbers, one a line: two plans are the same if these texts are.
std::string PlanText(const placement::Plan& plan, const execution::SimCase& sim);

}  // namespace hase::apps

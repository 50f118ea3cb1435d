// gavel-lp: the allocation that minimises the makespan, by linear programme at every event, then
// the jobs on the types that it gives them. Source: Narayanan et al., "Heterogeneity-aware cluster
// scheduling policies for deep learning workloads" (OSDI 2020), policy "minimum makespan": X says
// what part of a job's work each type of device does. Gavel's rounds move jobs from type to type so
// that they come near X; inference jobs here run to their end where they start, so X narrows the
// types (to those with more than a hundredth of the job's work) and within them the longest job
// goes first to where it finishes first, as one rounds such a programme.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "placement/bounds.h"
#include "placement/policies/factories.h"
#include "placement/policies/list_policy.h"

namespace hase::placement {
namespace {

// To twentieths of an e-fold: jobs of like ratios are one row of the programme, which stays small.
double Rounded(double ratio) { return std::exp(std::round(std::log(ratio) * 20) / 20); }

class GavelLp final : public ListPolicy {
 public:
  using ListPolicy::ListPolicy;

 private:
  void Prepare(const PlanningView& view, JobTable& table, const Frontier& frontier,
               std::span<const QueuedJob* const> jobs) override {
    BoundInstance instance;
    instance.classes.assign(view.types.size(), {0, 1, 0});
    for (const DeviceState& device : view.devices) {
      const Nanos free = frontier.FreeAt(view, device.id);
      if (!device.up || free == Nanos::Max()) continue;
      BoundClass& type = instance.classes[device.type.index()];
      type.count += PlainSlot(device, sharing()).share < kWholeDevice ? 2 : 1;
      type.busy_s += ToSeconds(std::max(free - view.now, Nanos(0)));
    }
    for (const QueuedJob* job : jobs) {
      BoundJob work{0, false, job->gang, {}};
      const double least = table.Least(view, *job);
      for (const JobOnType& on : table.Get(view, *job)) {
        work.p_s.push_back(on.possible ? least * Rounded(on.mean_s / least)
                                       : std::numeric_limits<double>::infinity());
      }
      instance.jobs.push_back(std::move(work));
    }
    auto parts = WorkAllocation(instance);
    for (size_t j = 0; j < jobs.size(); ++j) {
      const size_t index = jobs[j]->id.index();
      if (index >= parts_.size()) parts_.resize(std::max(index + 1, parts_.size() * 2));
      parts_[index] = std::move(parts[j]);
    }
  }

  double OrderKey(const PlanningView& view, JobTable& table, const QueuedJob& job) override {
    return -table.Least(view, job);
  }

  std::span<const JobOnType> Row(const PlanningView& view, JobTable& table,
                                 const QueuedJob& job) override {
    const auto row = table.Get(view, job);
    if (job.gang > 1) return row;  // no type of its part need have as many devices
    const std::vector<double>& parts = parts_[job.id.index()];
    row_.assign(row.begin(), row.end());
    for (size_t t = 0; t < row_.size(); ++t) row_[t].possible &= parts[t] > 0.01;
    const bool any = std::ranges::any_of(row_, &JobOnType::possible);
    return any ? std::span<const JobOnType>(row_) : row;  // an unsolved programme narrows nothing
  }

  std::vector<std::vector<double>> parts_;  // X, by job and type
  std::vector<JobOnType> row_;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeGavelLp(std::string_view options) {
  OptionText text("gavel-lp", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<GavelLp>(sharing);
}

}  // namespace hase::placement

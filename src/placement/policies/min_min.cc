// min-min: again and again, of all jobs the one whose earliest finish is the earliest goes there.
// Source: Ibarra and Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical
// processors" (1977); named so by Braun et al. (2001). Gangs are placed first, in order of arrival.
#include <algorithm>

#include "placement/frontier.h"
#include "placement/policies/factories.h"
#include "placement/rival.h"

namespace hase::placement {
namespace {

class MinMin final : public Policy {
 public:
  explicit MinMin(bool sharing) : sharing_(sharing), frontier_(sharing) {
    table_.SetSharing(sharing);
  }

  Plan Decide(const PlanningView& view) override {
    Plan plan;
    book_.Begin(view);
    frontier_.Update(view);
    new_jobs_.RejectImpossible(view, plan);
    frontier_.Begin(view);
    std::vector<const QueuedJob*> left;
    for (const QueuedJob& job : view.queue) {
      if (new_jobs_.WasRejected(job.id)) continue;
      if (job.gang > 1) {
        PlaceGang(view, job, plan);
      } else {
        left.push_back(&job);
      }
    }
    // Once no device is free, nobody else starts now and the rest need not be planned.
    while (!left.empty() && frontier_.idle() > 0) {
      if (!PlaceNext(view, left, plan)) break;
    }
    return plan;
  }

 private:
  bool Fits(const PlanningView& view, const QueuedJob& job, const Spot& spot) const {
    return spot.start > view.now ||
           FitsNow(view, book_, job, PlainSlot(view.devices[spot.device.index()], sharing_)) ==
               Obstacle::kNone;
  }

  bool PlaceNext(const PlanningView& view, std::vector<const QueuedJob*>& left, Plan& plan) {
    size_t best = SIZE_MAX;
    Spot best_spot;
    for (size_t i = 0; i < left.size(); ++i) {
      const QueuedJob& job = *left[i];
      frontier_.Find(
          view, table_.Get(view, job), 1, true,
          [&](DeviceId id, Nanos start) {
            return Fits(view, job, {id, start, Nanos(0), Nanos(0), false});
          },
          spots_);
      if (spots_.empty()) continue;
      if (best == SIZE_MAX || spots_.front().finish < best_spot.finish) {
        best = i;
        best_spot = spots_.front();
      }
    }
    if (best == SIZE_MAX) return false;
    const QueuedJob& job = *left[best];
    frontier_.Take(best_spot, best_spot.finish);
    if (best_spot.start <= view.now) {
      plan.decisions.emplace_back(
          StartNow(view, book_, job, {PlainSlot(view.devices[best_spot.device.index()], sharing_)},
                   "of all jobs it can finish first"));
    }
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    return true;
  }

  void PlaceGang(const PlanningView& view, const QueuedJob& job, Plan& plan) {
    const auto spots = frontier_.FindGang(view, job, table_.Get(view, job));
    if (spots.empty()) return;
    frontier_.TakeGang(spots, spots.front().finish);
    if (spots.front().start > view.now) return;
    std::vector<Slot> slots;
    for (const Spot& spot : spots) {
      if (!Fits(view, job, spot)) return;
      slots.push_back(PlainSlot(view.devices[spot.device.index()], sharing_));
    }
    if (!GangFitsHosts(view, book_, job, slots)) return;
    plan.decisions.emplace_back(
        StartNow(view, book_, job, std::move(slots), "gangs first, where they finish first"));
  }

  bool sharing_;
  JobTable table_;
  Frontier frontier_;
  NewJobs new_jobs_;
  PlanBook book_;
  std::vector<Spot> spots_;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeMinMin(std::string_view options) {
  OptionText text("min-min", options);
  bool sharing = false;
  text.Flag("sharing", sharing);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<MinMin>(sharing);
}

}  // namespace hase::placement

#include "placement/policies/hase.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "placement/policies/factories.h"

namespace hase::placement {
std::string Hase::Missing(const QueuedJob& job, Nanos finish) {
  if (!job.deadline || finish <= *job.deadline) return "";
  return fmt::format("; will miss its deadline by {:.1f} s", ToSeconds(finish - *job.deadline));
}

Candidate Hase::ToCandidate(const PlanningView& view, const Spot& spot) {
  return {spot.device,
          kWholeDevice,
          spot.start,
          spot.finish,
          Nanos(0),
          spot.start > view.now ? fmt::format("busy until {:.1f} s", ToSeconds(spot.start))
                                : "compute"};
}

Hase::Hase(const HaseOptions& options) : options_(options) {
  table_.SetMeansOnly(!options.quantile);
}

bool Hase::Rank::operator<(const Rank& other) const {
  return std::tuple(tier, -priority, overdue_since, key, arrival, job->id) <
         std::tuple(other.tier, -other.priority, other.overdue_since, other.key, other.arrival,
                    other.job->id);
}

void Hase::AdmitNew(const PlanningView& view, Plan& plan) {
  rejected_.clear();
  for (const QueuedJob* job : new_jobs_.Update(view)) {
    auto reject = RejectIfImpossible(view, *job);
    if (!reject && options_.reject_late && job->deadline) {
      const Nanos best = view.now + FromSeconds(table_.Least(view, *job));
      if (best > *job->deadline) {
        reject = Reject{job->id,
                        fmt::format("will miss its deadline by {:.1f} s even if it starts at once",
                                    ToSeconds(best - *job->deadline)),
                        ""};
      }
    }
    if (reject) {
      rejected_.push_back(job->id);
      plan.decisions.emplace_back(std::move(*reject));
    } else if (!job->promise.devices.empty() && job->running_parts == 0) {
      PromiseOf(job->id) = job->promise;
    }
  }
}

void Hase::Order(const PlanningView& view) {
  order_.clear();
  order_.reserve(view.queue.size());
  for (const QueuedJob& job : view.queue) {
    if (job.running_parts >= job.max_parallel || job.inputs_left <= 0) continue;
    if (!rejected_.empty() && std::ranges::find(rejected_, job.id) != rejected_.end()) continue;
    const double least = table_.Least(view, job);
    const double waited = ToSeconds(view.now - job.arrival);
    Rank rank{Rank::kOrdinary,
              job.priority + static_cast<int>(waited / options_.ageing_s),
              0,
              0,
              job.arrival,
              &job};
    if (IsOverdue(view, job)) {
      rank.tier = Rank::kOverdue;
      rank.overdue_since = ToSeconds(job.arrival);
      rank.priority = 0;
    } else if (job.deadline) {
      const double slack = ToSeconds(*job.deadline - view.now) - least;
      if (slack >= 0 && slack < least) rank.tier = Rank::kUrgent;
    }
    switch (options_.objective) {
      case Objective::kMakespan:
        rank.key = -least;
        break;
      case Objective::kCompletion:
        rank.key = least * job.gang;  // what it takes of the cluster: Smith's rule
        break;
      case Objective::kFair:
        rank.key = ToSeconds(job.arrival) + least * job.gang;
        break;
    }
    order_.push_back(rank);
  }
  std::sort(order_.begin(), order_.end());
}

// A divisible job that would end after the rest of the plan hands out only what ends with it; the
// other devices take what is left when they are free. nullopt: start all of it.
std::optional<Hase::Part> Hase::PartOf(const PlanningView& view, const QueuedJob& job,
                                       const Spot& spot) {
  if (!options_.chunking || !complete_ || job.max_parallel == 1 || job.gang > 1) return {};
  const Nanos end = frontier_.LevelEnd(table_.Get(view, job));
  if (spot.finish <= end) return {};
  const DeviceState& device = view.devices[spot.device.index()];
  const latency::Estimate* estimate = view.estimator->Find(job.model, device.type, job.batch);
  const double load = IsWarm(device, job.model) ? 0 : estimate->load_s * device.speed_factor;
  const double length = ToSeconds(spot.finish - view.now);
  const double wanted = std::max(ToSeconds(end - view.now), 4 * load);
  if (length - wanted <= 3 * load) return {};  // the rest would mostly load
  const double run_s = (length - load) / BatchesPerSlot(job.inputs_left, job.batch, 1);
  const auto batches = std::max<int64_t>(1, std::llround((wanted - load) / run_s));
  if (batches * job.batch >= job.inputs_left) return {};
  return Part{batches * job.batch,
              view.now + FromSeconds(load + run_s * static_cast<double>(batches))};
}

// Devices that the plan leaves idle now, since every job ends earlier on a faster one, take parts
// of divisible jobs that wait.
void Hase::FillIdle(const PlanningView& view, Plan& plan) {
  if (!options_.chunking || !complete_) return;
  for (size_t i = 0; i < planned_.size() && frontier_.idle() > 0; ++i) {
    const QueuedJob& job = *planned_[i].job;
    if (planned_[i].started || planned_[i].start() <= view.now || job.gang > 1) continue;
    int64_t left = job.inputs_left;
    const auto idle_only = [&](DeviceId id, Nanos start) {
      return start <= view.now && book_.Added(id).empty() &&
             HostFits(job, book_.Free(view.devices[id.index()].node));
    };
    for (int parts = job.running_parts + 1; parts < job.max_parallel; ++parts) {
      const auto row = table_.Get(view, job);
      frontier_.Find(view, row, 1, false, idle_only, spots_);
      if (spots_.empty()) break;
      const Spot spot = spots_.front();
      const auto part = PartOf(view, job, spot);
      if (!part || part->inputs >= left) break;
      planned_[i].started = true;  // its rest waits without a promise
      Start start;
      start.job = job.id;
      start.slots = {{spot.device, kWholeDevice, cluster::ShareMode::kExclusive}};
      start.batch = job.batch;
      start.inputs = part->inputs;
      start.record.why = fmt::format(
          "a part that ends with the rest of the plan, on idle device {}", spot.device.index());
      start.record.predicted_finish = part->finish;
      start.record.candidates.push_back(ToCandidate(view, spot));
      book_.Add(job, start.slots[0], row[view.devices[spot.device.index()].type.index()].memory);
      frontier_.Take(spot, part->finish);
      plan_end_.reset();
      plan.decisions.emplace_back(std::move(start));
      left -= part->inputs;
    }
  }
}

int64_t Hase::EmitStart(const PlanningView& view, Planned& planned, Plan& plan) {
  const QueuedJob& job = *planned.job;
  Start start;
  start.job = job.id;
  start.batch = job.batch;
  start.inputs = job.inputs_left;
  for (const Spot& spot : planned.spots) start.slots.push_back(SlotAlone(view, job, spot.device));
  Nanos finish = planned.finish();
  if (const auto part = PartOf(view, job, planned.spots[0])) {
    start.inputs = part->inputs;
    finish = part->finish;
  }
  start.record.why = fmt::format(
      "{} on device {} now{}{}",
      start.inputs < job.inputs_left ? "first part, which ends with the rest of the plan,"
                                     : "finishes first",
      planned.spots[0].device.index(),
      planned.runners_up.empty()
          ? ""
          : fmt::format(", {:.1f} s before device {}",
                        ToSeconds(planned.runners_up[0].finish - planned.finish()),
                        planned.runners_up[0].device.index()),
      Missing(job, finish));
  start.record.predicted_finish = finish;
  start.record.candidates.push_back(ToCandidate(view, planned.spots[0]));
  for (const Spot& spot : planned.runners_up) {
    start.record.candidates.push_back(ToCandidate(view, spot));
  }
  planned.started = true;
  const int64_t left = job.inputs_left - start.inputs;
  if (left > 0) {
    frontier_.Shorten(planned.spots[0].device, finish);
    plan_end_.reset();
  }
  plan.decisions.emplace_back(std::move(start));
  return left;
}

void Hase::EmitRest(const PlanningView& view, const QueuedJob& job, int64_t left) {
  QueuedJob rest = job;
  rest.inputs_left = left;
  ++rest.running_parts;
  if (rest.running_parts >= rest.max_parallel || frontier_.idle() == 0) return;
  parts_.push_back(std::move(rest));
  plan_end_.reset();
  Place(view, parts_.back());
}

void Hase::Emit(const PlanningView& view, Plan& plan) {
  bool blocked = false;
  co_located_ = false;
  plan_end_.reset();
  parts_.clear();
  if (!planned_.empty()) {
    const auto row = table_.Get(view, *planned_[0].job);
    level_row_.assign(row.begin(), row.end());
  }
  if (options_.sharing) {
    BuildChain(view);
  }
  for (size_t i = 0; i < planned_.size(); ++i) {  // grows by the rests of cut jobs
    if (planned_[i].start() > view.now) {
      blocked = true;
    } else if (options_.backfill || !blocked) {
      if (options_.sharing && TryTogether(view, planned_[i], plan)) continue;
      const QueuedJob& job = *planned_[i].job;
      if (const int64_t left = EmitStart(view, planned_[i], plan); left > 0) {
        EmitRest(view, job, left);
      }
    }
  }
  if (options_.backfill) FillIdle(view, plan);
  if (options_.sharing) Share(view, plan);
  EmitPromises(view, plan);
  std::optional<Nanos> first_wait;
  for (const Planned& planned : planned_) {
    if (planned.started || planned.start() <= view.now) continue;
    if (!first_wait || planned.start() < *first_wait) first_wait = planned.start();
  }
  // Idle devices wait for busier, faster ones: look again if those overrun. Nothing else needs it.
  if (frontier_.idle() > 0 && first_wait) {
    plan.wake_at = *first_wait + Nanos((*first_wait - view.now).value() / 20 + 1'000'000);
  }
  // Who waits behind new company is told at once, on what then runs.
  if (co_located_ && first_wait) plan.wake_at = view.now + Nanos(1'000);
  for (const Decision& decision : plan.decisions) {
    if (const auto* start = std::get_if<Start>(&decision)) PromiseOf(start->job).reset();
  }
}

Plan Hase::Decide(const PlanningView& original) {
  PlanningView view = options_.spec_only ? specification_.Of(original) : original;
  std::optional<BlindEstimator> blind;
  if (!options_.interference) view.estimator = &blind.emplace(*view.estimator);
  Plan plan;
  late_by_ = PromiseQuantile(view);
  AdmitNew(view, plan);
  frontier_.Update(view);
  Order(view);
  prices_.clear();
  MakePlan(view);
  Emit(view, plan);
  return plan;
}

Result<std::unique_ptr<Policy>> MakeHase(std::string_view options) {
  HASE_ASSIGN_OR_RETURN(const HaseOptions parsed, HaseOptions::Parse(options));
  return std::make_unique<Hase>(parsed);
}

}  // namespace hase::placement

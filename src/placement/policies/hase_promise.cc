// Promises: how they are made, told, checked, and what company may do to them.
//
// A plan whose promises all hold is a certificate: were nothing else ever started, the promised
// jobs, each on its devices and in the plan's order, would start in time. The next plan may be any
// other one that keeps them all; else it falls back on this order (Pass, promised first). So with
// exact predictions no promise is ever broken, whatever arrives, and company is let in only where
// the order still keeps every promise with the delay that the company brings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {
// Predicted times are sums of doubles rounded to nanoseconds; a promise is not broken by less.
constexpr Nanos kRounding = Nanos(2'000);
const Nanos kUnbounded = FromSeconds(1e9);
constexpr double kCompanyStretch = 2;  // at most so many times longer
}  // namespace

std::optional<Promise>& Hase::PromiseOf(JobId job) {
  if (job.index() >= promises_.size()) promises_.resize(2 * job.index() + 1);
  return promises_[job.index()];
}

bool Hase::IsPromised(JobId job) const {
  return job.index() < promises_.size() && promises_[job.index()].has_value();
}

// Jobs that came together do not overtake each other: with nobody later, nobody is overdue.
bool Hase::IsOverdue(const PlanningView& view, const QueuedJob& job) const {
  return ToSeconds(view.now - job.arrival) >= options_.overdue_s &&
         job.arrival < view.queue.back().arrival;
}

// How many standard deviations after its expected start a promise must lie to be kept with the
// asked probability: the quantile of how promises came out (split conformal prediction, Vovk et al.
// 2005), begun with a few draws from N(-0.5, 0.9), at a level that makes up for what was kept too
// often or too seldom so far (adaptive conformal inference, Gibbs and Candes 2021). Since a plan is
// made again whenever something happens, starts come out earlier than one plan alone would say;
// only outcomes tell by how much.
double Hase::PromiseQuantile(const PlanningView& view) {
  static constexpr double kPrior[] = {-1.88, -1.30, -0.94, -0.64, -0.36, -0.06, 0.30, 0.88};
  constexpr double kGain = 0.06;
  outcomes_.assign(std::begin(kPrior), std::end(kPrior));
  double surplus = 0;
  for (const PromiseOutcome& outcome : view.promise_outcomes) {
    outcomes_.push_back(outcome.error);
    surplus += (outcome.kept ? 1 : 0) - options_.probability;
  }
  const double level = std::clamp(options_.probability - kGain * surplus, 0.05, 0.995);
  const auto last = static_cast<double>(outcomes_.size() - 1);
  const double rank = std::clamp(level * (last + 2) - 1, 0.0, last);
  const auto at = outcomes_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(outcomes_.begin(), at, outcomes_.end());
  if (at + 1 == outcomes_.end()) return *at;
  return std::lerp(*at, *std::min_element(at + 1, outcomes_.end()), rank - std::floor(rank));
}

latency::Spread Hase::StartOf(const PlanningView& view, const Planned& planned) const {
  const double mean = ToSeconds(planned.start() - view.now);
  if (!options_.quantile || mean <= 0) return {mean, 0};
  latency::Spread start;
  for (const Spot& spot : planned.spots) {
    const DeviceForecast& residents = frontier_.ForecastOf(spot.device);
    // The plan stands on the residents' mean as it was when last heard of; that they still run
    // says more.
    const latency::Spread left =
        StillToCome(residents.joint, ToSeconds(view.now - residents.since));
    const double planned_s =
        residents.joint.mean_s > 0 ? ToSeconds(frontier_.FreeAt(view, spot.device) - view.now) : 0;
    latency::Spread free =
        timeline_.FreeBy(spot.device, view.now, planned.start(), {planned_s, left.variance_s2});
    if (planned.spots.size() == 1) free.mean_s = mean;  // the plan's own
    free.mean_s += std::max(0.0, left.mean_s - planned_s);
    start = LaterOf(start, free);
  }
  if (start.variance_s2 <= 0) start.mean_s = mean;
  return start;
}

// While the queue is deep, jobs that are planned before this one on its devices will mostly run in
// company, which takes longer: a promise that did not allow for it would forbid it, on the best
// devices most of all.
latency::Spread Hase::WithCompany(const PlanningView& view, const Planned& planned,
                                  latency::Spread start) {
  if (!options_.sharing) return start;
  double before_s = 0;
  for (const Spot& spot : planned.spots) {
    if (SharedMode(view.devices[spot.device.index()]) == cluster::ShareMode::kExclusive) continue;
    before_s = std::max(before_s, ToSeconds(planned.start() - frontier_.FreeAt(view, spot.device)));
  }
  if (before_s <= 0 || !IsDeep(view, start.mean_s + before_s)) return start;
  const double half = kCompanyStretch / 2 * before_s;
  return {start.mean_s + half, start.variance_s2 + half * half};
}

Nanos Hase::LateStart(const PlanningView& view, const Planned& planned) const {
  return Late(view, planned, StartOf(view, planned));
}

Nanos Hase::Late(const PlanningView& view, const Planned& planned,
                 const latency::Spread& start) const {
  if (planned.start() <= view.now || start.variance_s2 <= 0) return planned.start();
  const double late = start.mean_s + late_by_ * std::sqrt(start.variance_s2);
  return view.now + FromSeconds(std::max(late, 0.0));
}

double Hase::LatenessOf(const PlanningView& view, const Planned& planned) const {
  const Nanos from = promises_[planned.job->id.index()]->from;
  if (from + kRounding < view.now) return 0;  // broken already
  const Nanos late = LateStart(view, planned);
  return late > from + kRounding ? ToSeconds(late - from) : 0;
}

double Hase::Lateness(const PlanningView& view) const {
  constexpr double kNotPlanned = 1e9;
  double lateness = 0;
  size_t found = 0;
  for (const Planned& planned : planned_) {
    if (!IsPromised(planned.job->id)) continue;
    ++found;
    lateness += LatenessOf(view, planned);
  }
  return lateness +
         kNotPlanned * static_cast<double>(promised_count_ - std::min(found, promised_count_));
}

void Hase::BuildChain(const PlanningView& view) {
  for (const DeviceId id : chain_.devices) chain_.at[id.index()] = 0;
  chain_.devices.clear();
  chain_.free.clear();
  chain_.links.clear();
  chain_.at.resize(view.devices.size());
  // For the makespan the others count too, longest first: company that makes one of them end after
  // the rest of the plan is too dear.
  constexpr size_t kMostLinks = 64;
  const bool level = options_.objective == Objective::kMakespan && complete_ && !planned_.empty();
  const Nanos end = level ? frontier_.LevelEnd(level_row_) : Nanos(0);
  std::vector<const Planned*> bound;
  for (const Planned& planned : planned_) {
    const QueuedJob& job = *planned.job;
    if (planned.started || planned.start() <= view.now) continue;
    const bool held = job.running_parts == 0 && (IsPromised(job.id) || IsOverdue(view, job));
    if (held || (level && bound.size() < kMostLinks)) bound.push_back(&planned);
  }
  std::ranges::stable_sort(bound, {}, [](const Planned* p) { return p->start(); });
  for (const Planned* planned : bound) {
    const QueuedJob& job = *planned->job;
    Link link{job.id,     {},          planned->start(),    planned->finish() - planned->start(),
              kUnbounded, job.arrival, IsOverdue(view, job)};
    link.slack = level ? std::max(Nanos(0), end - planned->finish()) : kUnbounded;
    if (IsPromised(link.job)) {
      const Nanos from = promises_[link.job.index()]->from;
      link.slack = std::min(link.slack, std::max(Nanos(0), from - LateStart(view, *planned)));
    }
    for (const Spot& spot : planned->spots) {
      uint32_t& at = chain_.at[spot.device.index()];
      if (at == 0) {
        chain_.devices.push_back(spot.device);
        chain_.free.push_back(frontier_.FreeAt(view, spot.device));
        at = static_cast<uint32_t>(chain_.devices.size());
      }
      link.devices.push_back(at - 1);
    }
    chain_.links.push_back(std::move(link));
  }
  for (const Planned& planned : planned_) {
    if (planned.start() > view.now) continue;
    for (const Spot& spot : planned.spots) {
      if (const uint32_t at = chain_.at[spot.device.index()])
        chain_.free[at - 1] = planned.finish();
    }
  }
}

bool Hase::PromisesHold(DeviceId device, std::span<const JobId> joining, Nanos newest,
                        Nanos shift) const {
  const uint32_t at = chain_.at[device.index()];
  if (at == 0 || shift <= Nanos(0)) return true;
  std::vector<Nanos> free = chain_.free;
  free[at - 1] += shift;
  for (const Link& link : chain_.links) {
    if (link.gone || std::ranges::find(joining, link.job) != joining.end()) continue;
    Nanos start;
    for (const size_t d : link.devices) start = std::max(start, free[d]);
    const Nanos slack = link.overdue && newest > link.arrival ? Nanos(0) : link.slack;
    if (start > link.start + slack + kRounding) return false;
    for (const size_t d : link.devices) free[d] = start + link.length;
  }
  return true;
}

void Hase::TakeIntoChain(DeviceId device, std::span<const JobId> joining, Nanos shift) {
  if (const uint32_t at = chain_.at[device.index()]) chain_.free[at - 1] += shift;
  for (Link& link : chain_.links) {
    if (std::ranges::find(joining, link.job) != joining.end()) link.gone = true;
  }
}

void Hase::EmitPromise(const PlanningView& view, const Planned& planned, bool renew, Plan& plan) {
  auto& promise = PromiseOf(planned.job->id);
  std::vector<DeviceId> devices;
  for (const Spot& spot : planned.spots) devices.push_back(spot.device);
  const bool same_place = promise && promise->devices == devices;
  if (!promise) {
    const latency::Spread start = WithCompany(view, planned, StartOf(view, planned));
    promise = {
        {},       Late(view, planned, start),           options_.probability,
        Nanos(0), view.now + FromSeconds(start.mean_s), FromSeconds(std::sqrt(start.variance_s2))};
  }
  if (same_place && !renew) return;
  promise->devices = std::move(devices);
  promise->planned_start = planned.start();
  Reserve reserve;
  reserve.job = planned.job->id;
  for (const Spot& spot : planned.spots) {
    reserve.slots.push_back({spot.device, kWholeDevice, cluster::ShareMode::kExclusive});
  }
  reserve.from = promise->from;
  reserve.probability = promise->probability;
  reserve.planned_start = planned.start();
  reserve.expected = promise->expected;
  reserve.deviation = promise->deviation;
  reserve.record.why =
      fmt::format("waits for device {}, free at about {:.1f} s, rather than start elsewhere{}",
                  planned.spots[0].device.index(), ToSeconds(planned.start()),
                  Missing(*planned.job, planned.finish()));
  reserve.record.predicted_finish = planned.finish();
  reserve.record.candidates.push_back(ToCandidate(view, planned.spots[0]));
  for (const Spot& spot : planned.runners_up) {
    reserve.record.candidates.push_back(ToCandidate(view, spot));
  }
  plan.decisions.emplace_back(std::move(reserve));
}

void Hase::EmitPromises(const PlanningView& view, Plan& plan) {
  // A promise is told again when it moves to another device, or when the order of the promised jobs
  // changes: that order is what a plan falls back on. New ones are not made in a call that let
  // company in, since the plan does not know of it: the policy asks to be called again at once.
  std::vector<const Planned*> promised;
  int64_t depth = options_.reservation_depth;
  for (const Planned& planned : planned_) {
    if (planned.started || planned.start() <= view.now || planned.job->running_parts > 0) continue;
    const bool holds = IsPromised(planned.job->id);
    if ((depth-- > 0 && !co_located_) || holds) promised.push_back(&planned);
  }
  std::ranges::stable_sort(promised, {}, [](const Planned* p) { return p->start(); });
  bool reordered = false;
  Nanos last;
  for (const Planned* planned : promised) {
    const auto& promise = PromiseOf(planned->job->id);
    const bool told =
        promise && std::ranges::equal(promise->devices, planned->spots, {}, {}, &Spot::device);
    const Nanos start = told ? promise->planned_start : planned->start();
    reordered = reordered || start < last;
    last = start;
  }
  for (const Planned* planned : promised) EmitPromise(view, *planned, reordered, plan);
}

}  // namespace hase::placement

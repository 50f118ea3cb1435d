// Co-location: blocked jobs join residents that have left room, or start in pairs on a device that
// would have gone to one of them, where the prediction says that it pays.
//
// It pays, for the makespan: with a deep queue, if the device then does more work per second; with
// a shallow one, if all of it ends before the plan without sharing would. For completion times: if
// what the newcomer gains exceeds what it inflicts on residents, weighted by priority; a deep queue
// adds what the higher throughput spares everybody behind.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {

constexpr int kRoomsPerType = 4;  // shared devices looked at per job and type
constexpr size_t kLargeCluster = 256;
constexpr int kWeighings = 96;  // per Decide(): bounds its time
constexpr int64_t kLeastShare = 250;
constexpr double kSpare = 0.9;          // of the gain, for a smaller share
constexpr double kServiceSlack = 1.02;  // a service may be slowed so much by a job that joins

}  // namespace

std::vector<double> Hase::Slowdowns(const PlanningView& view, const DeviceState& device,
                                    const std::vector<latency::Tenant>& tenants) {
  std::vector<double> slow;
  for (size_t i = 0; i < tenants.size(); ++i) {
    std::vector<latency::Tenant> others = tenants;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    slow.push_back(view.estimator->Slowdown(tenants[i], device.type, others, device.foreign));
  }
  return slow;
}

Hase::Company Hase::Weigh(const PlanningView& view, const DeviceState& device,
                          std::span<const Resident> joining) const {
  Company result;
  const DeviceForecast before = ForecastDevice(view, device);
  const DeviceForecast after = ForecastDevice(view, device, joining);
  std::vector<latency::Tenant> tenants;
  for (const Resident& r : device.residents) tenants.push_back(r.tenant);
  const std::vector<double> slow_before = Slowdowns(view, device, tenants);
  for (const Resident& r : joining) tenants.push_back(r.tenant);
  const std::vector<double> slow_after = Slowdowns(view, device, tenants);
  for (double s : slow_after) result.rate_gain += 1 / s;
  for (double s : slow_before) result.rate_gain -= 1 / s;
  const int priority = joining.front().priority;
  for (size_t i = 0; i < device.residents.size(); ++i) {
    const Resident& r = device.residents[i];
    if (!r.left) {
      result.allowed = result.allowed && slow_after[i] <= slow_before[i] * kServiceSlack;
      result.rate_gain += 1 / slow_before[i] - 1 / slow_after[i];
      continue;
    }
    const double weight = std::exp2(std::clamp(r.priority - priority, -8, 8));
    result.inflicted_s +=
        weight * std::max(0.0, after.until_end[i].mean_s - before.until_end[i].mean_s);
  }
  for (size_t i = device.residents.size(); i < after.until_end.size(); ++i) {
    result.ends_s.push_back(after.until_end[i].mean_s);
  }
  result.free_before_s = before.until_free.mean_s;
  result.free_after_s = after.until_free.mean_s;
  const auto late = [&](const DeviceForecast& f) {
    if (!options_.quantile || f.until_free.mean_s <= 0) return f.until_free.mean_s;
    return f.until_free.Quantile(options_.probability);
  };
  result.late_shift_s = late(after) - late(before);
  return result;
}

// When all devices would end together, what is not in the plan added by its least times, each
// device counted by its speed for the first job.
Nanos Hase::PlanEnd(const PlanningView& view) {
  Nanos end = frontier_.LevelEnd(level_row_);
  if (complete_ || left_out_s_ <= 0) return end;
  const double speed = frontier_.SpeedFor(level_row_);
  const double least = table_.Least(view, *planned_[0].job);
  if (speed > 0 && least > 0) end += FromSeconds(left_out_s_ / (least * speed));
  return end;
}

bool Hase::IsDeep(const PlanningView& view, double horizon_s) {
  if (planned_.empty()) return false;
  return ToSeconds(PlanEnd(view) - view.now) > options_.share_depth * horizon_s;
}

// `planned`: when the newcomers would end without sharing, in their order; `alone_s`: how much
// longer than now the first of them would run alone, nothing where residents are joined.
bool Hase::Pays(const PlanningView& view, const Company& company, std::span<const Nanos> planned,
                double alone_s) {
  if (!company.allowed) return false;
  const double planned_s = ToSeconds(*std::ranges::max_element(planned) - view.now);
  const bool deep = IsDeep(view, company.free_after_s);
  if (options_.objective == Objective::kMakespan) {
    if (deep) return company.rate_gain >= (alone_s > 0 ? 1 : 0) + options_.share_gain;
    return company.rate_gain > (alone_s > 0 ? 1 : 0) &&
           company.free_after_s <= planned_s * (1 - options_.share_gain);
  }
  double own = 0;
  for (size_t i = alone_s > 0 ? 1 : 0; i < planned.size(); ++i) {
    own += ToSeconds(planned[i] - view.now) - company.ends_s[i];
  }
  double delay = company.inflicted_s;
  if (alone_s > 0) delay += std::max(0.0, company.ends_s.front() - alone_s);
  double others = 0;
  if (deep) {
    const double behind =
        static_cast<double>(order_.size()) / static_cast<double>(view.devices.size());
    others = (company.rate_gain - (alone_s > 0 ? 1 : 0)) * company.free_after_s * behind;
  }
  return own - delay + others > options_.share_gain * planned_s;
}

void Hase::UpdateRooms(const PlanningView& view) {
  const auto refresh = [&](const DeviceState& device) {
    const uint32_t i = device.id.index();
    auto& rooms = rooms_[device.type.index()];
    if (room_of_[i] > 0) rooms.erase({-room_of_[i], i});
    const bool shared = device.up && !device.residents.empty() &&
                        device.residents[0].mode != cluster::ShareMode::kExclusive;
    const int64_t room = shared ? (kWholeDevice - device.share_used()).value() : 0;
    room_of_[i] = room >= 100 ? room : 0;
    if (room_of_[i] > 0) rooms.insert({-room_of_[i], i});
  };
  if (view.everything_changed || room_of_.size() != view.devices.size()) {
    rooms_.assign(view.types.size(), {});
    room_of_.assign(view.devices.size(), 0);
    for (const DeviceState& device : view.devices) refresh(device);
  } else {
    for (const DeviceId id : view.changed_devices) refresh(view.devices[id.index()]);
  }
}

// How well a device type suits a job, compared with the other jobs that wait: 1.1 = a tenth faster
// than they would make expect.
double Hase::Suits(const PlanningView& view, const QueuedJob& job, DeviceTypeId type) {
  if (type.index() >= usual_.size()) return 1;
  const JobOnType& on = table_.Get(view, job)[type.index()];
  const double usual = usual_[type.index()];
  if (!on.possible || on.mean_s <= 0 || usual <= 0) return 1;
  return usual * table_.Least(view, job) / on.mean_s;
}

// Blocked jobs looked at, in the plan's order. An order of short jobs first is kept more closely.
int Hase::Partners(const PlanningView& view) const {
  if (!options_.backfill) return 1;
  if (view.devices.size() > kLargeCluster) return 8;  // decisions are many there: see the bench
  return options_.objective == Objective::kMakespan ? 64 : 16;
}

void Hase::NoteUsual(const PlanningView& view) {
  constexpr size_t kSample = 64;
  usual_.assign(view.types.size(), 0);
  std::vector<int> count(view.types.size());
  for (size_t i = 0; i < std::min(kSample, planned_.size()); ++i) {
    const QueuedJob& job = *planned_[i].job;
    const double least = table_.Least(view, job);
    const auto row = table_.Get(view, job);
    for (size_t t = 0; t < row.size(); ++t) {
      if (!row[t].possible || least <= 0) continue;
      usual_[t] += row[t].mean_s / least;
      ++count[t];
    }
  }
  for (size_t t = 0; t < usual_.size(); ++t) usual_[t] /= std::max(count[t], 1);
}

std::optional<Hase::Join> Hase::FindJoin(const PlanningView& view, const Planned& planned,
                                         int& budget) {
  const QueuedJob& job = *planned.job;
  if (job.gang > 1 || job.sharing == workload::Sharing::kNever) return {};
  std::optional<Join> best;
  const Nanos ends[] = {planned.finish()};
  const auto weigh = [&](const DeviceState& device, MilliShare share) -> std::optional<Join> {
    --budget;
    const Slot slot{device.id, share, device.residents[0].mode};
    const auto resident = AsResident(view, job, job.inputs_left, device, slot.share, slot.mode);
    const Company company = Weigh(view, device, std::span(&*resident, 1));
    const JobId joining[] = {job.id};
    if (best && company.ends_s[0] >= best->finish_s) return {};
    if (!Pays(view, company, ends, 0) || !PromisesHold(device.id, joining, company.Shift())) {
      return {};
    }
    return Join{company.ends_s[0], slot, company, resident->memory};
  };
  for (const auto& rooms : rooms_) {
    int looked = 0;
    for (const auto& [room, index] : rooms) {
      const DeviceState& device = view.devices[index];
      if (++looked > kRoomsPerType || budget <= 0) break;
      // One newcomer per device and call: how it weighs is known for the residents of now.
      if (!book_.Added(device.id).empty()) continue;
      const MilliShare all(-room), part(-room - kLeastShare);
      if (FitsNow(view, book_, job, {device.id, all, device.residents[0].mode}) !=
          Obstacle::kNone) {
        continue;
      }
      auto join = weigh(device, all);
      // Who gets on nearly as well with less leaves room for another.
      if (join && part.value() >= kLeastShare && IsDeep(view, join->company.free_after_s)) {
        const auto less = weigh(device, part);
        if (less && less->company.rate_gain >= kSpare * join->company.rate_gain) join = less;
      }
      if (join) best = join;
    }
  }
  return best;
}

void Hase::StartJoin(const PlanningView& view, Planned& planned, const Join& join, Plan& plan) {
  const QueuedJob& job = *planned.job;
  Start start;
  start.job = job.id;
  start.slots = {join.slot};
  start.batch = job.batch;
  start.inputs = job.inputs_left;
  start.record.predicted_finish = view.now + FromSeconds(join.finish_s);
  start.record.why = fmt::format(
      "joins {:.0f} % of device {} now, delaying its residents by {:.2f} s in all",
      ToFraction(join.slot.share) * 100, join.slot.device.index(), join.company.inflicted_s);
  start.record.candidates.push_back({join.slot.device, join.slot.share, view.now,
                                     start.record.predicted_finish,
                                     FromSeconds(join.company.inflicted_s), "share"});
  start.record.candidates.push_back({planned.spots[0].device, kWholeDevice, planned.start(),
                                     planned.finish(), Nanos(0), "waits"});
  book_.Add(job, join.slot, join.memory);
  const JobId joined[] = {job.id};
  TakeIntoChain(join.slot.device, joined, join.company.Shift());
  co_located_ = true;
  planned.started = true;
  plan.decisions.emplace_back(std::move(start));
}

void Hase::Share(const PlanningView& view, Plan& plan) {
  UpdateRooms(view);
  int budget = view.devices.size() > kLargeCluster ? kWeighings / 2 : kWeighings;
  while (budget > 0) {
    // Of the first that wait, the one that gains most.
    Planned* chosen = nullptr;
    std::optional<Join> best;
    double most = 0;
    int looked = 0;
    for (Planned& planned : planned_) {
      if (planned.started || planned.start() <= view.now) continue;
      if (++looked > Partners(view) || budget <= 0) break;
      const auto join = FindJoin(view, planned, budget);
      if (!join) continue;
      const double gain = join->company.rate_gain *
                          Suits(view, *planned.job, view.devices[join->slot.device.index()].type);
      if (gain <= most) continue;
      most = gain;
      chosen = &planned;
      best = join;
    }
    if (!chosen) break;
    StartJoin(view, *chosen, *best, plan);
  }
}

}  // namespace hase::placement

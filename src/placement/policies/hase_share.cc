// Co-location: blocked jobs join residents that have left room, or start in sets on a device that
// would have gone to one of them (hase_company.cc), where the prediction says that it pays.
//
// It pays, with a deep queue, if the device then does more work per second. With a shallow one, for
// the makespan: if all of it ends before the plan without sharing would; for completion times: if
// what the newcomer gains exceeds what it inflicts on residents, weighted by priority.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {

constexpr int kRoomsPerType = 4;  // shared devices looked at per job and type
constexpr size_t kLargeCluster = 256;
constexpr int kWeighings = 384;  // per Decide(): bounds its time
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
  if (plan_end_) return *plan_end_;
  Nanos end = frontier_.LevelEnd(level_row_);
  if (!complete_ && left_out_s_ > 0) {
    const double speed = frontier_.SpeedFor(level_row_);
    const double least = table_.Least(view, *planned_[0].job);
    if (speed > 0 && least > 0) end += FromSeconds(left_out_s_ / (least * speed));
  }
  plan_end_ = end;
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
  if (deep) return company.rate_gain >= (alone_s > 0 ? 1 : 0) + options_.share_gain;
  if (options_.objective == Objective::kMakespan) {
    return company.rate_gain > (alone_s > 0 ? 1 : 0) &&
           company.free_after_s <= planned_s * (1 - options_.share_gain);
  }
  double own = 0;
  for (size_t i = alone_s > 0 ? 1 : 0; i < planned.size(); ++i) {
    own += ToSeconds(planned[i] - view.now) - company.ends_s[i];
  }
  double delay = company.inflicted_s;
  if (alone_s > 0) delay += std::max(0.0, company.ends_s.front() - alone_s);
  return own - delay > options_.share_gain * planned_s;
}

// A job that starts alone takes no more of the device than it is predicted to use, so that others
// can join it later. Not with a deep queue: there company was sought at once.
Slot Hase::SlotAlone(const PlanningView& view, const QueuedJob& job, DeviceId id) const {
  const DeviceState& device = view.devices[id.index()];
  const cluster::ShareMode mode = SharedMode(device);
  const Slot whole{id, kWholeDevice, cluster::ShareMode::kExclusive};
  if (!options_.sharing || !complete_ || job.gang > 1 || mode == cluster::ShareMode::kExclusive ||
      job.sharing == workload::Sharing::kNever) {
    return whole;
  }
  latency::Tenant tenant{job.model, job.batch, kWholeDevice};
  const double alone = view.estimator->Slowdown(tenant, device.type, {}, device.foreign);
  for (tenant.share = MilliShare(kLeastShare); tenant.share < kWholeDevice;
       tenant.share += MilliShare(kLeastShare)) {
    if (view.estimator->Slowdown(tenant, device.type, {}, device.foreign) <= alone) {
      return {id, tenant.share, mode};
    }
  }
  return whole;
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

// The part of a device that the work takes among three of its like, a quarter to all of it: what a
// second of it should count for, so that those who share well with anybody are not all used up by
// the first device that asks.
double Hase::Footprint(const PlanningView& view, ModelId model, int64_t batch, DeviceTypeId type) {
  auto& row = footprints_[{model.index(), batch}];
  if (row.size() <= type.index()) row.resize(view.types.size(), 0);
  float& part = row[type.index()];
  if (part == 0) {
    const latency::Tenant tenant{model, batch, MilliShare(250)};
    const latency::Tenant others[] = {tenant, tenant, tenant};
    const double slow = view.estimator->Slowdown(tenant, type, others, {});
    part = static_cast<float>(std::clamp(slow / 4, 0.25, 1.0));
  }
  return part;
}

// What a second of the job's work at full speed is worth on this type, in units of what a second of
// it usually yields.
double Hase::Weight(const PlanningView& view, const QueuedJob& job, DeviceTypeId type) {
  return Suits(view, job, type) * Footprint(view, job.model, job.batch, type);
}

// Time of the job on a device of the type, what company spares counted; 0 if it cannot run there.
double Hase::CostOn(const PlanningView& view, const QueuedJob& job, size_t type) {
  const JobOnType& on = table_.Get(view, job)[type];
  if (!on.possible) return 0;
  if (job.gang > 1 || job.sharing == workload::Sharing::kNever) return on.mean_s;
  return on.mean_s *
         Footprint(view, job.model, job.batch, DeviceTypeId(static_cast<uint32_t>(type)));
}

// How well a device type suits a job: what it costs where it costs least, over what it costs there,
// at the prices of the types.
double Hase::Suits(const PlanningView& view, const QueuedJob& job, DeviceTypeId type) {
  if (prices_.empty()) SetPrices(view);
  const double cost = CostOn(view, job, type.index()) * prices_[type.index()];
  double least = cost;
  for (size_t t = 0; t < prices_.size(); ++t) {
    if (const double other = CostOn(view, job, t) * prices_[t]; other > 0) {
      least = std::min(least, other);
    }
  }
  return cost > 0 ? least / cost : 1;
}

// Blocked jobs looked at, in the plan's order. An order of short jobs first is kept more closely.
// Long queues are looked through further, for who goes well with whom; not short ones, or the long
// jobs are left for the end.
int Hase::Partners(const PlanningView& view) const {
  constexpr double kLong = 20;  // jobs per device: from here on further; twice that: kAll
  constexpr double kAll = 512;
  if (!options_.backfill) return 1;
  if (view.devices.size() > kLargeCluster) return 8;  // decisions are many there: see the bench
  const double waiting =
      static_cast<double>(order_.size()) / static_cast<double>(view.devices.size());
  const double least = options_.objective == Objective::kMakespan ? 64 : 16;
  return static_cast<int>(std::lerp(least, kAll, std::clamp(waiting / kLong - 1, 0.0, 1.0)));
}

// Jobs of one kind are alike as company: in a long queue the first stands for all.
bool Hase::IsNewKind(const QueuedJob& job) {
  if (complete_) return true;
  const size_t i = job.id.index();
  if (i >= kind_of_.size()) kind_of_.resize(2 * i + 1);
  size_t& kind = kind_of_[i];
  if (kind == 0) {
    const bool own = job.sharing == workload::Sharing::kSameOwner;
    const std::tuple key(job.model.index(), job.batch, static_cast<int>(job.sharing),
                         own ? job.owner.index() : 0);
    kind = kinds_.try_emplace(key, kinds_.size() + 1).first->second;
    if (kind >= kind_seen_.size()) kind_seen_.resize(2 * kind);
  }
  return std::exchange(kind_seen_[kind], kind_look_) != kind_look_;
}

// Prices of a second on each type of device, such that jobs which each go where they cost least
// keep all types busy about equally long: the dual of the makespan's linear programme, by raising
// what is overloaded and lowering what is not, on a sample of those that wait.
void Hase::SetPrices(const PlanningView& view) {
  constexpr size_t kSample = 96;
  constexpr int kRounds = 40;
  const size_t types = view.types.size();
  if (counted_ != view.devices.size() || devices_of_.size() != types) {
    counted_ = view.devices.size();
    devices_of_.assign(types, 0);
    for (const DeviceState& device : view.devices) ++devices_of_[device.type.index()];
  }
  prices_.assign(types, 1);
  if (order_.empty()) return;
  const size_t step = (order_.size() + kSample - 1) / kSample;
  costs_.clear();
  for (size_t i = 0; i < order_.size(); i += step) {
    for (size_t t = 0; t < types; ++t) {
      costs_.push_back(CostOn(view, *order_[i].job, t) * order_[i].job->gang);
    }
  }
  std::vector<double> load(types);
  for (int round = 0; round < kRounds; ++round) {
    std::ranges::fill(load, 0);
    double sum = 0;
    for (size_t row = 0; row < costs_.size(); row += types) {
      size_t best = types;
      for (size_t t = 0; t < types; ++t) {
        if (costs_[row + t] <= 0) continue;
        if (best == types || costs_[row + t] * prices_[t] < costs_[row + best] * prices_[best]) {
          best = t;
        }
      }
      if (best == types) continue;
      load[best] += costs_[row + best] / std::max(devices_of_[best], 1);
      sum += costs_[row + best] * prices_[best];
    }
    double worth = 0;  // of all devices' time
    for (size_t t = 0; t < types; ++t) worth += prices_[t] * devices_of_[t];
    if (sum <= 0 || worth <= 0) return;
    const double rate = 0.5 / (1 + 0.1 * round);
    for (size_t t = 0; t < types; ++t) {
      prices_[t] *= std::pow(std::clamp(load[t] * worth / sum, 0.2, 5.0), rate);
    }
  }
}

// Work per second on the device, in units of what is usual there, if the job joined.
double Hase::GainOf(const PlanningView& view, const DeviceState& device, const QueuedJob& job,
                    MilliShare share) {
  std::vector<latency::Tenant> tenants;
  for (const Resident& r : device.residents) tenants.push_back(r.tenant);
  const std::vector<double> before = Slowdowns(view, device, tenants);
  tenants.push_back({job.model, job.batch, share});
  const std::vector<double> after = Slowdowns(view, device, tenants);
  double gain = Weight(view, job, device.type) / after.back();
  for (size_t i = 0; i < before.size(); ++i) {
    const double part = Footprint(view, tenants[i].model, tenants[i].batch, device.type);
    gain += part * (1 / after[i] - 1 / before[i]);
  }
  return gain;
}

// The job's best place among shared devices, if it gains more than `least` there.
std::optional<Hase::Join> Hase::FindJoin(const PlanningView& view, const Planned& planned,
                                         double least, int& budget) {
  const QueuedJob& job = *planned.job;
  if (job.gang > 1 || job.sharing == workload::Sharing::kNever) return {};
  std::optional<Join> best;
  const Nanos ends[] = {planned.finish()};
  const auto weigh = [&](const DeviceState& device, MilliShare share, double gain) {
    const Slot slot{device.id, share, device.residents[0].mode};
    const auto resident = AsResident(view, job, job.inputs_left, device, slot.share, slot.mode);
    const Company company = Weigh(view, device, std::span(&*resident, 1));
    const JobId joining[] = {job.id};
    if (Pays(view, company, ends, 0) &&
        PromisesHold(device.id, joining, job.arrival, company.Shift())) {
      best = Join{company.ends_s[0], slot, company, resident->memory, gain};
      least = gain;
    }
  };
  for (const auto& rooms : rooms_) {
    int looked = 0;
    for (const auto& [room, index] : rooms) {
      const DeviceState& device = view.devices[index];
      if (++looked > kRoomsPerType || budget <= 0) break;
      // One newcomer per device and call: how it weighs is known for the residents of now.
      if (!book_.Added(device.id).empty()) continue;
      MilliShare share(-room);
      if (FitsNow(view, book_, job, {device.id, share, device.residents[0].mode}) !=
          Obstacle::kNone) {
        continue;
      }
      --budget;
      double gain = GainOf(view, device, job, share);
      // Who gets on nearly as well with less leaves room for another.
      if (const MilliShare part(-room - kLeastShare); part.value() >= kLeastShare) {
        const double less = GainOf(view, device, job, part);
        if (less >= kSpare * gain) gain = less, share = part;
      }
      if (gain > least) weigh(device, share, gain);
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
  int budget = view.devices.size() > kLargeCluster ? kWeighings / 8 : kWeighings;
  const int partners = Partners(view);
  while (budget > 0) {
    // Of the first that wait, the one that gains most.
    Planned* chosen = nullptr;
    std::optional<Join> best;
    int looked = 0;
    ++kind_look_;
    for (Planned& planned : planned_) {
      if (planned.started || planned.start() <= view.now) continue;
      if (++looked > partners || budget <= 0) break;
      if (!IsNewKind(*planned.job)) continue;
      const auto join = FindJoin(view, planned, best ? best->gain : 0, budget);
      if (!join) continue;
      chosen = &planned;
      best = join;
    }
    if (!chosen) break;
    StartJoin(view, *chosen, *best, plan);
  }
}

}  // namespace hase::placement

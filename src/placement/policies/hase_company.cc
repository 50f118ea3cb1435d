// Company from the start: a job that would take an empty device alone starts there with one to
// three blocked jobs, on shares in quarters, where together they do more of the work that the
// device is good at. Sets grow one by one, the best pair first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {

constexpr double kWorthIt = 1.02;  // what another one must add
constexpr size_t kMostTogether = 4;

cluster::ShareMode SharedMode(const DeviceState& device) {
  for (const cluster::ShareMode mode : device.modes) {
    if (mode != cluster::ShareMode::kExclusive) return mode;
  }
  return cluster::ShareMode::kExclusive;
}

// Shares that sets of two, three and four try.
using Shares = std::array<int64_t, kMostTogether>;
std::span<const Shares> SharesOf(size_t size) {
  static constexpr Shares kTwo[] = {{500, 500}, {250, 750}, {750, 250}};
  static constexpr Shares kThree[] = {{500, 250, 250}, {250, 500, 250}, {250, 250, 500}};
  static constexpr Shares kFour[] = {{250, 250, 250, 250}};
  if (size == 2) return kTwo;
  if (size == 3) return kThree;
  return kFour;
}

}  // namespace

// The best set of `together.members` and one more, if it beats what is there.
bool Hase::Extend(const PlanningView& view, const DeviceState& device, Together& together) {
  Together best = together;
  const size_t size = together.members.size() + 1;
  std::vector<Planned*> members = together.members;
  members.push_back(nullptr);
  int looked = 0;
  for (Planned& other : planned_) {
    const QueuedJob& b = *other.job;
    if (other.started || other.start() <= view.now) continue;
    if (++looked > Partners(view)) break;
    if (b.gang > 1 || std::ranges::find(members, &other) != members.end()) continue;
    const JobOnType& on_b = table_.Get(view, b)[device.type.index()];
    if (!on_b.possible || !HostFits(b, book_.Free(device.node))) continue;
    Bytes memory = on_b.memory;
    bool together_at_all = true;
    for (size_t i = 0; i + 1 < size; ++i) {
      const QueuedJob& a = *members[i]->job;
      together_at_all = together_at_all && MayShare(a.owner, a.sharing, b.owner, b.sharing);
      if (i > 0) memory += table_.Get(view, a)[device.type.index()].memory;
    }
    if (!together_at_all || memory > book_.MemoryFree(device)) continue;
    members.back() = &other;
    for (const Shares& shares : SharesOf(size)) {
      std::vector<latency::Tenant> tenants;
      for (size_t i = 0; i < size; ++i) {
        tenants.push_back({members[i]->job->model, members[i]->job->batch, MilliShare(shares[i])});
      }
      const std::vector<double> slow = Slowdowns(view, device, tenants);
      double value = 0;
      for (size_t i = 0; i < size; ++i) {
        value += Suits(view, *members[i]->job, device.type) / slow[i];
      }
      if (value <= best.value) continue;
      Together tried{members, {shares.begin(), shares.begin() + size}, value, {}, {}};
      if (Admits(view, device, tried)) best = std::move(tried);
    }
  }
  if (best.members.size() < size || best.value < together.value * kWorthIt) return false;
  together = std::move(best);
  return true;
}

// Whether it pays and no promise suffers; fills in what the company does.
bool Hase::Admits(const PlanningView& view, const DeviceState& device, Together& together) {
  std::vector<JobId> joining;
  std::vector<Nanos> planned;
  for (size_t i = 0; i < together.members.size(); ++i) {
    const Planned& member = *together.members[i];
    together.residents.push_back(*AsResident(view, *member.job, member.job->inputs_left, device,
                                             MilliShare(together.shares[i]), SharedMode(device)));
    joining.push_back(member.job->id);
    planned.push_back(member.finish());
  }
  together.company = Weigh(view, device, together.residents);
  const double alone_s = ToSeconds(planned[0] - view.now);
  return Pays(view, together.company, planned, alone_s) &&
         PromisesHold(device.id, joining, FromSeconds(together.company.free_after_s - alone_s));
}

bool Hase::TryTogether(const PlanningView& view, Planned& first, Plan& plan) {
  const QueuedJob& a = *first.job;
  const DeviceState& device = view.devices[first.spots[0].device.index()];
  const cluster::ShareMode mode = SharedMode(device);
  if (a.gang > 1 || a.sharing == workload::Sharing::kNever ||
      mode == cluster::ShareMode::kExclusive || blocked_ == 0) {
    return false;
  }
  Together best{{&first}, {1000}, Suits(view, a, device.type), {}, {}};
  while (best.members.size() < kMostTogether && Extend(view, device, best)) {
  }
  const size_t size = best.members.size();
  if (size == 1) return false;
  std::vector<JobId> joined;
  for (size_t i = 0; i < size; ++i) {
    Planned& member = *best.members[i];
    const QueuedJob& job = *member.job;
    const MilliShare share(best.shares[i]);
    Start start;
    start.job = job.id;
    start.slots = {{device.id, share, mode}};
    start.batch = job.batch;
    start.inputs = job.inputs_left;
    start.record.predicted_finish = view.now + FromSeconds(best.company.ends_s[i]);
    start.record.why = fmt::format(
        "starts beside job {}{} on {:.0f} % of device {}: together {:.2f} × the work of one alone",
        best.members[i == 0 ? 1 : 0]->job->id.index(),
        size > 2 ? fmt::format(" and {} more", size - 2) : "", ToFraction(share) * 100,
        device.id.index(), best.company.rate_gain);
    start.record.candidates.push_back(
        {device.id, share, view.now, start.record.predicted_finish, Nanos(0), "share"});
    start.record.candidates.push_back(
        {member.spots[0].device, kWholeDevice, member.start(), member.finish(), Nanos(0), "alone"});
    member.started = true;
    joined.push_back(job.id);
    if (i > 0) book_.Add(job, {device.id, share, mode}, best.residents[i].memory);
    plan.decisions.emplace_back(std::move(start));
  }
  TakeIntoChain(device.id, joined,
                FromSeconds(best.company.free_after_s - ToSeconds(first.finish() - view.now)));
  co_located_ = true;
  return true;
}

}  // namespace hase::placement

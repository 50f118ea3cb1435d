// Company from the start: a job that would take an empty device alone starts there with one to
// three blocked jobs, on shares in quarters, where together they do more of the work that the
// device is good at.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "placement/policies/hase.h"

namespace hase::placement {
namespace {

constexpr double kWorthIt = 1.01;  // by which another set must be better
constexpr size_t kMostTogether = 4;
constexpr size_t kTries = 16;  // partners that are weighed for one share

// Shares that are tried, the first job's first. Each is filled up by itself: who does well on a
// half is not who does well on a quarter.
constexpr std::array<std::array<int64_t, kMostTogether>, 6> kShares = {{
    {250, 250, 250, 250},
    {500, 250, 250, 0},
    {250, 500, 250, 0},
    {500, 500, 0, 0},
    {250, 750, 0, 0},
    {750, 250, 0, 0},
}};

}  // namespace

cluster::ShareMode Hase::SharedMode(const DeviceState& device) {
  for (const cluster::ShareMode mode : device.modes) {
    if (mode != cluster::ShareMode::kExclusive) return mode;
  }
  return cluster::ShareMode::kExclusive;
}

// Fills these shares one by one with the blocked job that adds most and is admitted, of the first
// few; where none is, with the one that adds most, since a larger set may pay. What pays goes into
// `best` where it beats it.
void Hase::Fill(const PlanningView& view, const DeviceState& device,
                std::span<const int64_t> shares, Planned& first, Together& best) {
  Together set{{&first}, {shares[0]}, 0, {}, {}};
  std::vector<latency::Tenant> tenants = {
      {first.job->model, first.job->batch, MilliShare(shares[0])}};
  std::vector<double> suits = {Weight(view, *first.job, device.type)};
  Bytes memory;
  NodeState host = book_.Free(device.node);  // less what this set takes; the first is booked
  struct Choice {
    double value, suits;
    Planned* job;
  };
  std::vector<Choice> choices;
  const int partners = Partners(view);
  // Idle devices take parts of divisible jobs: better than company.
  const bool parts = options_.chunking && complete_ && frontier_.idle() > 0;
  for (size_t next = 1; next < shares.size() && shares[next] > 0; ++next) {
    choices.clear();
    int looked = 0;
    ++kind_look_;
    tenants.emplace_back();
    for (Planned& other : planned_) {
      const QueuedJob& b = *other.job;
      if (other.started || other.start() <= view.now) continue;
      if (++looked > partners) break;
      if (parts && b.max_parallel > 1) continue;
      if (b.gang > 1 || std::ranges::find(set.members, &other) != set.members.end()) continue;
      const JobOnType& on_b = table_.Get(view, b)[device.type.index()];
      if (!on_b.possible || !HostFits(b, host) || memory + on_b.memory > book_.MemoryFree(device) ||
          !std::ranges::all_of(set.members, [&](const Planned* a) {
            return MayShare(a->job->owner, a->job->sharing, b.owner, b.sharing);
          })) {
        continue;
      }
      if (!IsNewKind(b)) continue;
      tenants.back() = {b.model, b.batch, MilliShare(shares[next])};
      const std::vector<double> slow = Slowdowns(view, device, tenants);
      const double suits_b = Weight(view, b, device.type);
      double value = suits_b / slow.back();
      for (size_t i = 0; i < suits.size(); ++i) value += suits[i] / slow[i];
      if (value > set.value) choices.push_back({value, suits_b, &other});
    }
    if (choices.empty()) return;
    std::ranges::stable_sort(choices, std::greater{}, &Choice::value);
    set.members.emplace_back();
    set.shares.push_back(shares[next]);
    const auto take = [&](const Choice& choice) {
      set.members.back() = choice.job;
      set.value = choice.value;
    };
    const auto admitted = [&](const Choice& choice) {
      if (choice.value <= best.value * kWorthIt) return false;
      take(choice);
      Together tried = set;
      if (!Admits(view, device, tried)) return false;
      best = std::move(tried);
      return true;
    };
    const auto few = std::span(choices).first(std::min(kTries, choices.size()));
    const auto found = std::ranges::find_if(few, admitted);
    const Choice& chosen = found == few.end() ? choices.front() : *found;
    take(chosen);
    tenants.back() = {chosen.job->job->model, chosen.job->job->batch, MilliShare(shares[next])};
    suits.push_back(chosen.suits);
    memory += table_.Get(view, *chosen.job->job)[device.type.index()].memory;
    host.cores_milli_free -= chosen.job->job->host_cores_milli;
    host.memory_free -= chosen.job->job->host_memory;
  }
}

// Whether it pays and no promise suffers; fills in what the company does.
bool Hase::Admits(const PlanningView& view, const DeviceState& device, Together& together) {
  std::vector<JobId> joining;
  Nanos newest;
  std::vector<Nanos> planned;
  for (size_t i = 0; i < together.members.size(); ++i) {
    const Planned& member = *together.members[i];
    together.residents.push_back(*AsResident(view, *member.job, member.job->inputs_left, device,
                                             MilliShare(together.shares[i]), SharedMode(device)));
    joining.push_back(member.job->id);
    newest = std::max(newest, member.job->arrival);
    planned.push_back(member.finish());
  }
  together.company = Weigh(view, device, together.residents);
  const double alone_s = ToSeconds(planned[0] - view.now);
  return Pays(view, together.company, planned, alone_s) &&
         PromisesHold(device.id, joining, newest,
                      FromSeconds(together.company.free_after_s - alone_s));
}

bool Hase::TryTogether(const PlanningView& view, Planned& first, Plan& plan) {
  const QueuedJob& a = *first.job;
  const DeviceState& device = view.devices[first.spots[0].device.index()];
  const cluster::ShareMode mode = SharedMode(device);
  if (a.gang > 1 || a.sharing == workload::Sharing::kNever ||
      mode == cluster::ShareMode::kExclusive || blocked_ == 0) {
    return false;
  }
  if (PartOf(view, a, first.spots[0])) return false;  // its rest goes elsewhere
  Together best{{&first}, {1000}, Weight(view, a, device.type), {}, {}};
  for (const auto& shares : kShares) Fill(view, device, shares, first, best);
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

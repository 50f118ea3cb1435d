#include "execution/state.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace hase::execution {
namespace {

using cluster::ShareMode;
using placement::DeviceState;
using placement::QueuedJob;
using placement::Slot;
using workload::Sharing;

bool Named(const cluster::DeviceType& type, const std::string& name) {
  const auto& aliases = type.spec.aliases;
  return type.name == name || type.spec.name == name ||
         std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

bool MayShare(Sharing a, OwnerId owner_a, Sharing b, OwnerId owner_b) {
  if (a == Sharing::kNever || b == Sharing::kNever) return false;
  return owner_a == owner_b || (a == Sharing::kAny && b == Sharing::kAny);
}

bool Before(const QueuedJob& a, const QueuedJob& b) {
  return a.arrival != b.arrival ? a.arrival < b.arrival : a.id < b.id;
}

std::string Gib(Bytes b) {
  return fmt::format("{:.2f} GiB", static_cast<double>(b.value()) / (1 << 30));
}

}  // namespace

State::State(const EngineOptions& options, const cluster::Cluster& cluster,
             const latency::Estimator& estimator, std::vector<JobInput> jobs)
    : cluster_(cluster), estimator_(estimator) {
  std::unordered_map<std::string, OwnerId> owners;
  jobs_.reserve(jobs.size());
  for (auto& input : jobs) {
    JobState state;
    state.spec = std::move(input.job);
    state.model = input.model;
    state.owner = owners.emplace(state.spec.owner, OwnerId(static_cast<uint32_t>(owners.size())))
                      .first->second;
    for (const auto& name : state.spec.device_types) {
      for (uint32_t t = 0; t < cluster.types.size(); ++t) {
        const DeviceTypeId id(t);
        const bool twice =
            std::find(state.types.begin(), state.types.end(), id) != state.types.end();
        if (!twice && Named(cluster.types[t], name)) state.types.push_back(id);
      }
    }
    state.no_type = !state.spec.device_types.empty() && state.types.empty();
    state.inputs_done = std::min(input.inputs_done, state.spec.inputs);
    state.inputs_left = state.spec.inputs - state.inputs_done;
    state.outcome.arrival = state.spec.arrival;
    state.outcome.deadline = state.spec.deadline;
    if (input.over || state.inputs_left == 0) {
      state.outcome.ending = Ending::kFinished;
      state.outcome.finished_before = true;
      state.end_unsaid = !input.over;
    }
    jobs_.push_back(std::move(state));
  }
  for (const auto& d : cluster.devices) {
    const auto& type = cluster.types[d.type.index()];
    DeviceState state;
    state.id = d.id;
    state.type = d.type;
    state.node = d.node;
    const bool gpu = type.spec.kind == cluster::DeviceKind::kGpu;
    state.memory_total =
        gpu ? Scale(type.spec.memory, options.gpu_memory_usable) : type.spec.memory;
    state.modes = d.modes;
    devices_.push_back(std::move(state));
  }
  for (const auto& n : cluster.nodes) {
    nodes_.push_back({n.host_cores * 1000, n.host_cores * 1000, n.host_memory, n.host_memory});
  }
  device_runs_.resize(devices_.size());
  is_changed_.resize(devices_.size());
}

std::string State::SlotNames(std::span<const Slot> slots) const {
  std::string names;
  for (const auto& slot : slots) {
    if (!names.empty()) names += '+';
    names += DeviceName(slot.device);
  }
  return names;
}

QueuedJob State::QueueLine(JobId id) const {
  const JobState& state = jobs_[id.index()];
  QueuedJob line;
  line.id = id;
  line.model = state.model;
  line.batch = state.spec.batch;
  line.inputs_left = state.inputs_left;
  line.arrival = state.spec.arrival;
  line.priority = state.spec.priority;
  line.deadline = state.spec.deadline;
  line.owner = state.owner;
  line.max_parallel = state.spec.max_parallel;
  line.running_parts = state.running;
  line.gang = state.spec.gang;
  line.sharing = state.spec.sharing;
  line.device_types = state.types;
  line.host_cores_milli = state.spec.host_cores_milli;
  line.host_memory = state.spec.host_memory;
  line.memory_factor = state.memory_factor;
  line.promise = state.promise;
  return line;
}

void State::SyncQueue(JobId id) {
  const JobState& state = jobs_[id.index()];
  QueuedJob key;
  key.id = id;
  key.arrival = state.spec.arrival;
  const auto at = std::lower_bound(queue_.begin(), queue_.end(), key, Before);
  const bool there = at != queue_.end() && at->id == id;
  const bool wanted = state.arrived && state.open() && state.inputs_left > 0;
  if (there && wanted) {
    at->inputs_left = state.inputs_left;
    at->running_parts = state.running;
    at->memory_factor = state.memory_factor;
    at->promise = state.promise;
  } else if (there) {
    queue_.erase(at);
  } else if (wanted) {
    queue_.insert(at, QueueLine(id));
  }
}

Bytes State::MemoryFor(JobId id, DeviceTypeId type, int64_t batch) const {
  const JobState& state = jobs_[id.index()];
  const auto* estimate = estimator_.Find(state.model, type, batch);
  HASE_CHECK(estimate != nullptr, "no estimate for job {}", state.spec.job_id);
  return Scale(estimate->memory(), state.memory_factor);
}

std::optional<std::string> State::SlotBreach(const JobState& job, const Slot& slot,
                                             Bytes memory) const {
  const DeviceState& device = devices_[slot.device.index()];
  const bool exclusive = slot.mode == ShareMode::kExclusive;
  if (!device.up) return "the device is down";
  if (slot.share <= MilliShare(0) || slot.share > kWholeDevice) {
    return fmt::format("share {} of 1000", slot.share.value());
  }
  if (exclusive && slot.share != kWholeDevice) return "an exclusive slot takes the whole device";
  if (!exclusive &&
      std::find(device.modes.begin(), device.modes.end(), slot.mode) == device.modes.end()) {
    return fmt::format("the device cannot enforce mode {}", cluster::ToString(slot.mode));
  }
  MilliShare share = slot.share;
  Bytes used = memory;
  for (const auto& resident : device.residents) {
    share += resident.tenant.share;
    used += resident.memory;
    if (exclusive || resident.mode == ShareMode::kExclusive) {
      return "an exclusive slot on a device that is in use";
    }
    if (resident.mode != slot.mode) {
      return fmt::format("modes {} and {} on one device", cluster::ToString(resident.mode),
                         cluster::ToString(slot.mode));
    }
    if (!MayShare(job.spec.sharing, job.owner, resident.sharing, resident.owner)) {
      return fmt::format("beside {}, which its or the other's `sharing` forbids",
                         jobs_[resident.job.index()].spec.job_id);
    }
  }
  if (share > kWholeDevice) return fmt::format("shares would sum to {} of 1000", share.value());
  if (used > device.memory_total) {
    return fmt::format("memory would be {} of {}", Gib(used), Gib(device.memory_total));
  }
  return std::nullopt;
}

std::optional<std::string> State::Breach(const placement::Start& start) {
  if (start.job.index() >= jobs_.size()) return "no such job";
  const JobState& job = jobs_[start.job.index()];
  if (!job.arrived || !job.open()) return "the job is not in the queue";
  if (start.batch < 1) return fmt::format("batch {}", start.batch);
  if (start.inputs < 1 || start.inputs > job.inputs_left) {
    return fmt::format("{} inputs where {} are left", start.inputs, job.inputs_left);
  }
  if (start.slots.size() != static_cast<size_t>(job.spec.gang)) {
    return fmt::format("{} slots for a gang of {}", start.slots.size(), job.spec.gang);
  }
  if (job.running >= std::max(1, job.spec.max_parallel)) {
    return fmt::format("more than {} parts at once", job.spec.max_parallel);
  }
  std::vector<int> cores(nodes_.size());
  for (size_t i = 0; i < start.slots.size(); ++i) {
    const Slot& slot = start.slots[i];
    if (slot.device.index() >= devices_.size()) return "no such device";
    const DeviceState& device = devices_[slot.device.index()];
    for (size_t j = 0; j < i; ++j) {
      if (start.slots[j].device == slot.device) return "a gang twice on one device";
    }
    if (job.no_type || (!job.types.empty() && std::find(job.types.begin(), job.types.end(),
                                                        device.type) == job.types.end())) {
      return "the job does not admit this type of device";
    }
    if (!estimator_.Find(job.model, device.type, start.batch)) {
      return "no estimate: " + estimator_.WhyNot(job.model, device.type, start.batch);
    }
    if (auto breach = SlotBreach(job, slot, MemoryFor(start.job, device.type, start.batch))) {
      return DeviceName(slot.device) + ": " + *breach;
    }
    const auto& node = nodes_[device.node.index()];
    const int64_t members = ++cores[device.node.index()];
    if (node.cores_milli_total > 0 && members * job.spec.host_cores_milli > node.cores_milli_free) {
      return fmt::format("node of {}: host cores", DeviceName(slot.device));
    }
    if (node.memory_total > Bytes(0) && job.spec.host_memory * members > node.memory_free) {
      return fmt::format("node of {}: host memory", DeviceName(slot.device));
    }
  }
  return std::nullopt;
}

std::optional<placement::Reject> State::Impossible(JobId id) const {
  const JobState& job = jobs_[id.index()];
  if (job.no_type) {
    std::string types;
    for (const auto& t : cluster_.types) types += (types.empty() ? "" : ", ") + t.name;
    return placement::Reject{id, "the cluster has no device of the types it names", types};
  }
  int fitting = 0, by_host = 0;
  std::string nearest, no_estimate;
  Bytes shortest = Bytes::Max();
  for (const auto& device : devices_) {
    if (!job.types.empty() &&
        std::find(job.types.begin(), job.types.end(), device.type) == job.types.end()) {
      continue;
    }
    const auto* estimate = estimator_.Find(job.model, device.type, job.spec.batch);
    if (!estimate) {
      if (no_estimate.empty()) {
        no_estimate = estimator_.WhyNot(job.model, device.type, job.spec.batch);
      }
      continue;
    }
    const Bytes need = Scale(estimate->memory(), job.memory_factor);
    if (need > device.memory_total) {
      if (need - device.memory_total < shortest) {
        shortest = need - device.memory_total;
        nearest = fmt::format("{} would need {} at batch {}, it has {}", DeviceName(device.id),
                              Gib(need), job.spec.batch, Gib(device.memory_total));
      }
      continue;
    }
    const auto& node = nodes_[device.node.index()];
    if ((node.cores_milli_total > 0 && job.spec.host_cores_milli > node.cores_milli_total) ||
        (node.memory_total > Bytes(0) && job.spec.host_memory > node.memory_total)) {
      ++by_host;
      continue;
    }
    if (++fitting >= job.spec.gang) return std::nullopt;
  }
  if (fitting > 0) {
    return placement::Reject{
        id, fmt::format("a gang of {} where {} devices fit", job.spec.gang, fitting),
        fmt::format("a gang of {}", fitting)};
  }
  if (by_host > 0)
    return placement::Reject{id, "no node has the host cores or memory it asks for", ""};
  if (!nearest.empty()) return placement::Reject{id, "no device has the memory it needs", nearest};
  if (!no_estimate.empty()) return placement::Reject{id, "no estimate: " + no_estimate, ""};
  return placement::Reject{id, "the cluster has no device", ""};
}

void State::NoteChange(DeviceId id) {
  if (is_changed_[id.index()]) return;
  is_changed_[id.index()] = true;
  changed_.push_back(id);
}

void State::ForgetChanges() {
  for (const auto id : changed_) is_changed_[id.index()] = false;
  changed_.clear();
}

void State::TakeHost(const JobState& job, std::span<const Slot> slots, int sign) {
  for (const auto& slot : slots) {
    auto& node = nodes_[devices_[slot.device.index()].node.index()];
    node.cores_milli_free -= sign * job.spec.host_cores_milli;
    node.memory_free -= job.spec.host_memory * sign;
  }
}

RunId State::Place(const placement::Start& start, Nanos now) {
  JobState& job = jobs_[start.job.index()];
  const RunId id(static_cast<uint32_t>(runs_.size()));
  RunState run;
  run.job = start.job;
  run.slots = start.slots;
  run.batch = start.batch;
  run.inputs = start.inputs;
  run.progress.batches =
      placement::BatchesPerSlot(start.inputs, start.batch, static_cast<int>(start.slots.size()));
  run.progress.credit_at = now;
  for (const auto& slot : start.slots) {
    DeviceState& device = devices_[slot.device.index()];
    const auto* estimate = estimator_.Find(job.model, device.type, start.batch);
    if (!run.counted) run.counted = estimate;
    const Bytes memory = MemoryFor(start.job, device.type, start.batch);
    run.memory = std::max(run.memory, memory);
    const double p99 = estimate->Job(run.progress.batches, true).Quantile(0.99);
    run.progress.limit_s =
        std::max(run.progress.limit_s, p99 * std::max(1.0, device.speed_factor) * 1.001 + 1e-3);
    placement::Resident resident;
    resident.job = start.job;
    resident.owner = job.owner;
    resident.priority = job.spec.priority;
    resident.sharing = job.spec.sharing;
    resident.tenant = {job.model, start.batch, slot.share};
    resident.mode = slot.mode;
    resident.memory = memory;
    resident.started = now;
    device.residents.push_back(resident);
    device_runs_[slot.device.index()].push_back(id);
  }
  TakeHost(job, start.slots, 1);
  if (!job.outcome.first_start) placement::NoteOutcome(job.promise, now, promise_outcomes_);
  job.promise = {};
  job.inputs_left -= start.inputs;
  ++job.running;
  runs_.push_back(std::move(run));
  for (const auto& slot : start.slots) Refresh(slot.device, now);
  SyncQueue(start.job);
  return id;
}

void State::Release(RunId id, Nanos now) {
  RunState& run = runs_[id.index()];
  HASE_CHECK(run.active, "run {} released twice", id.index());
  run.active = false;
  JobState& job = jobs_[run.job.index()];
  for (const auto& slot : run.slots) {
    auto& runs = device_runs_[slot.device.index()];
    const auto at = std::find(runs.begin(), runs.end(), id);
    HASE_CHECK(at != runs.end(), "run {} is not on {}", id.index(), DeviceName(slot.device));
    auto& residents = devices_[slot.device.index()].residents;
    residents.erase(residents.begin() + (at - runs.begin()));
    runs.erase(at);
  }
  TakeHost(job, run.slots, -1);
  --job.running;
  for (const auto& slot : run.slots) Refresh(slot.device, now);
}

// The pace of a gang is that of its slowest slot.
void State::RefreshPace(RunId id) {
  RunState& run = runs_[id.index()];
  const JobState& job = jobs_[run.job.index()];
  run.slowest = nullptr;
  double pace = 0, solo = 0;
  for (const auto& slot : run.slots) {
    const DeviceState& device = devices_[slot.device.index()];
    const auto* estimate = estimator_.Find(job.model, device.type, run.batch);
    const auto& runs = device_runs_[slot.device.index()];
    others_.clear();
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i] != id) others_.push_back(device.residents[i].tenant);
    }
    const double slowdown = estimator_.Slowdown({job.model, run.batch, slot.share}, device.type,
                                                others_, device.foreign);
    const double alone = estimate->latency_s * device.speed_factor;
    if (run.slowest && alone * slowdown <= pace) continue;
    run.slowest = estimate;
    pace = alone * slowdown;
    solo = alone;
    run.speed = device.speed_factor;
  }
  run.progress.slowdown = solo > 0 ? std::max(1.0, pace / solo) : 1.0;
}

void State::RefreshLeft(RunId id, Nanos now) {
  RunState& run = runs_[id.index()];
  run.progress.Advance(now);
  overruns_ += run.progress.NoteOverrun();
  const latency::Spread left = run.progress.Left(*run.slowest, run.speed);
  for (const auto& slot : run.slots) {
    const auto& runs = device_runs_[slot.device.index()];
    const auto at = std::find(runs.begin(), runs.end(), id) - runs.begin();
    auto& resident = devices_[slot.device.index()].residents[static_cast<size_t>(at)];
    resident.left = left;
    resident.left_at = now;
    resident.overrunning = run.progress.overrunning;
    NoteChange(slot.device);
  }
}

void State::Refresh(DeviceId id, Nanos now) {
  NoteChange(id);
  for (const RunId run : device_runs_[id.index()]) {
    runs_[run.index()].progress.Advance(now);  // at the pace it had
    RefreshPace(run);
    RefreshLeft(run, now);
  }
}

void State::RefreshProgress(DeviceId id, Nanos now) {
  NoteChange(id);
  for (const RunId run : device_runs_[id.index()]) RefreshLeft(run, now);
}

placement::PlanningView State::View(Nanos now, bool everything_changed) const {
  placement::PlanningView view;
  view.now = now;
  view.queue = queue_;
  view.devices = devices_;
  view.nodes = nodes_;
  view.types = cluster_.types;
  view.estimator = &estimator_;
  view.changed_devices = changed_;
  view.everything_changed = everything_changed;
  view.promise_outcomes = promise_outcomes_;
  return view;
}

}  // namespace hase::execution

#include "placement/test_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "placement/admission.h"
#include "placement/forecast.h"

namespace hase::placement {

ModelId FakeEstimator::Add(const Model& model) {
  models_.push_back(model);
  return ModelId(static_cast<uint32_t>(models_.size() - 1));
}

const latency::Estimate* FakeEstimator::Find(ModelId model, DeviceTypeId type,
                                             int64_t batch) const {
  const Model& m = models_[model.index()];
  if (type.index() >= m.latency_s.size() || m.latency_s[type.index()] <= 0) return nullptr;
  const auto [it, fresh] =
      estimates_.try_emplace({model.index(), type.index(), batch}, latency::Estimate{});
  if (fresh) {
    latency::Estimate& e = it->second;
    e.latency_s = m.latency_s[type.index()];
    e.shared_sigma = m.sigma;
    e.load_s = m.load_s;
    e.memory_load = e.memory_run = m.memory;
    e.compute_part = m.compute_part;
    e.bandwidth_part = 1 - m.compute_part;
  }
  return &it->second;
}

double FakeEstimator::Slowdown(const latency::Tenant& tenant, DeviceTypeId,
                               std::span<const latency::Tenant> others,
                               const latency::ForeignLoad&) const {
  const Model& m = models_[tenant.model.index()];
  const double share = ToFraction(tenant.share);
  return (1 - m.compute_part + m.compute_part / share) *
         (1 + m.contention * static_cast<double>(others.size()));
}

void TestWorld::AddDevices(int count, DeviceTypeId type, Bytes memory,
                           std::vector<cluster::ShareMode> modes, double speed_factor) {
  while (types.size() <= type.index()) types.emplace_back();
  for (int i = 0; i < count; ++i) {
    DeviceState d;
    d.id = DeviceId(static_cast<uint32_t>(devices.size()));
    d.type = type;
    d.memory_total = memory;
    d.modes = modes;
    d.speed_factor = speed_factor;
    devices.push_back(std::move(d));
  }
  if (nodes.empty()) nodes.emplace_back();
}

QueuedJob& TestWorld::AddJob(ModelId model, int64_t inputs, double arrival_s, double truth_factor) {
  TestJob job;
  job.job.id = JobId(static_cast<uint32_t>(jobs.size()));
  job.job.model = model;
  job.job.inputs_left = inputs;
  job.job.arrival = FromSeconds(arrival_s);
  job.truth_factor = truth_factor;
  jobs.push_back(std::move(job));
  return jobs.back().job;
}

PlanningView TestWorld::View() {
  queue_.clear();
  for (const TestJob& job : jobs) {
    if (job.job.arrival <= now_ && !job.rejected && job.job.inputs_left > 0) {
      queue_.push_back(job.job);
    }
  }
  PlanningView view;
  view.now = now_;
  view.queue = queue_;
  view.devices = devices;
  view.nodes = nodes;
  view.types = types;
  view.estimator = &estimator;
  view.changed_devices = changed_;
  view.everything_changed = first_;
  view.promise_outcomes = promise_outcomes_;
  return view;
}

void TestWorld::Refresh(DeviceId id) {
  DeviceState& device = devices[id.index()];
  changed_.push_back(id);
  for (size_t r = 0; r < device.residents.size(); ++r) {
    Resident& resident = device.residents[r];
    for (Part& part : parts_) {
      if (jobs[part.job].job.id != resident.job) continue;
      for (size_t k = 0; k < part.slots.size(); ++k) {
        if (part.slots[k].device != id) continue;
        resident.left = part.predicted[k].ScaledBy(part.left_s / part.total_s);
        resident.left_at = now_;
      }
    }
  }
  for (Part& part : parts_) {
    double slowest = 0;
    for (const Slot& slot : part.slots) {
      const DeviceState& d = devices[slot.device.index()];
      std::vector<latency::Tenant> others;
      for (const Resident& r : d.residents) {
        if (r.job != jobs[part.job].job.id) others.push_back(r.tenant);
      }
      const QueuedJob& job = jobs[part.job].job;
      slowest = std::max(slowest, estimator.Slowdown({job.model, job.batch, slot.share}, d.type,
                                                     others, d.foreign));
    }
    part.rate = 1 / slowest;
  }
}

void TestWorld::CheckStart(const Start& start, Outcome& outcome) {
  const TestJob& test = jobs[start.job.index()];
  const QueuedJob& job = test.job;
  const auto broken = [&](std::string what) {
    outcome.broken.push_back(
        fmt::format("t={:.3f} s, job {}: {}", ToSeconds(now_), job.id.index(), what));
  };
  if (job.arrival > now_) broken("started before it arrived");
  if (test.rejected) broken("started after its rejection");
  if (start.inputs <= 0 || start.inputs > job.inputs_left) broken("inputs not those left");
  if (start.slots.size() != static_cast<size_t>(job.gang)) broken("slots are not the gang");
  if (job.running_parts >= job.max_parallel) broken("more parts than max_parallel");
  for (size_t a = 0; a < start.slots.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (start.slots[a].device == start.slots[b].device) broken("gang on one device twice");
    }
    const Slot& slot = start.slots[a];
    PlanBook nothing;
    const PlanningView view = View();
    nothing.Begin(view);
    const Obstacle o = FitsNow(view, nothing, job, slot);
    if (o != Obstacle::kNone) broken(fmt::format("does not fit: {}", ToString(o)));
  }
}

void TestWorld::ApplyStart(const Start& start, Outcome& outcome) {
  CheckStart(start, outcome);
  TestJob& test = jobs[start.job.index()];
  Part part{start.job.index(), start.slots, {}, start.inputs, 0, 0, 0};
  const PlanningView view = View();
  for (const Slot& slot : start.slots) {
    DeviceState& device = devices[slot.device.index()];
    auto resident = AsResident(view, test.job, start.inputs, device, slot.share, slot.mode);
    if (!resident) return;
    const double solo = resident->left->mean_s * test.truth_factor;
    if (part.predicted.empty() || resident->left->mean_s > part.predicted[0].mean_s) {
      part.predicted.assign(start.slots.size(), *resident->left);  // lockstep: the slowest's pace
    }
    part.total_s = part.left_s = std::max(part.total_s, solo);
    if (!device.residents.empty()) ++outcome.co_located;
    device.residents.push_back(*resident);
  }
  test.job.inputs_left -= start.inputs;
  ++test.job.running_parts;
  if (test.first_start_s < 0) {
    test.first_start_s = ToSeconds(now_);
    NoteOutcome(test.job.promise, now_, promise_outcomes_);
    for (Kept& promise : outcome.promises) {
      if (promise.job == start.job) promise.kept = ToSeconds(now_) <= promise.from_s + 1e-6;
    }
  }
  test.job.promise = {};
  ++outcome.starts;
  parts_.push_back(std::move(part));
  for (const Slot& slot : start.slots) Refresh(slot.device);
}

void TestWorld::Note(const Reserve& reserve, Outcome& outcome) {
  if (jobs[reserve.job.index()].job.running_parts > 0) return;  // a rest: the job has started
  auto& known = jobs[reserve.job.index()].job.promise;
  known = {};
  for (const Slot& slot : reserve.slots) known.devices.push_back(slot.device);
  known.from = reserve.from;
  known.probability = reserve.probability;
  known.planned_start = reserve.planned_start;
  known.expected = reserve.expected;
  known.deviation = reserve.deviation;
  if (jobs[reserve.job.index()].first_start_s >= 0) return;  // a rest: the job has started
  for (const Kept& promise : outcome.promises) {
    if (promise.job == reserve.job) return;
  }
  outcome.promises.push_back(
      {reserve.job, ToSeconds(now_), ToSeconds(reserve.from), reserve.probability, false});
}

void TestWorld::Apply(const Plan& plan, Outcome& outcome) {
  for (const Decision& decision : plan.decisions) {
    if (const auto* start = std::get_if<Start>(&decision)) ApplyStart(*start, outcome);
    if (const auto* reserve = std::get_if<Reserve>(&decision)) Note(*reserve, outcome);
    if (const auto* reject = std::get_if<Reject>(&decision)) {
      jobs[reject->job.index()].rejected = true;
    }
  }
}

double TestWorld::NextFinish() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Part& part : parts_) next = std::min(next, part.left_s / part.rate);
  return next;
}

void TestWorld::Advance(double seconds) {
  now_ += Nanos(static_cast<int64_t>(std::ceil(seconds * 1e9)));
  for (Part& part : parts_) part.left_s -= seconds * part.rate;
}

void TestWorld::FinishParts(Outcome& outcome) {
  std::vector<DeviceId> touched;
  for (size_t i = 0; i < parts_.size();) {
    if (parts_[i].left_s > 2e-9) {
      ++i;
      continue;
    }
    TestJob& test = jobs[parts_[i].job];
    --test.job.running_parts;
    test.done += parts_[i].inputs;
    test.finish_s = ToSeconds(now_);
    outcome.makespan_s = std::max(outcome.makespan_s, test.finish_s);
    for (const Slot& slot : parts_[i].slots) {
      auto& residents = devices[slot.device.index()].residents;
      std::erase_if(residents, [&](const Resident& r) { return r.job == test.job.id; });
      touched.push_back(slot.device);
    }
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const DeviceId id : touched) Refresh(id);
}

void TestWorld::FailDevices() {
  for (; failed_ < failures.size() && FromSeconds(failures[failed_].first) <= now_; ++failed_) {
    const DeviceId id = failures[failed_].second;
    devices[id.index()].up = false;
    for (size_t i = 0; i < parts_.size();) {
      if (std::ranges::find(parts_[i].slots, id, &Slot::device) == parts_[i].slots.end()) {
        ++i;
        continue;
      }
      QueuedJob& job = jobs[parts_[i].job].job;
      job.inputs_left += parts_[i].inputs;
      --job.running_parts;
      for (const Slot& slot : parts_[i].slots) {
        std::erase_if(devices[slot.device.index()].residents,
                      [&](const Resident& r) { return r.job == job.id; });
        changed_.push_back(slot.device);
      }
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Refresh(id);
  }
}

TestWorld::Outcome TestWorld::Run(
    Policy& policy, const std::function<void(const PlanningView&, const Plan&)>& observe) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Outcome outcome;
  std::optional<Nanos> wake;
  for (;;) {
    double next = NextFinish();
    for (const TestJob& job : jobs) {
      if (job.job.arrival > now_) {
        next = std::min(next, ToSeconds(job.job.arrival - now_));
        break;
      }
    }
    if (first_ && !jobs.empty() && jobs.front().job.arrival <= now_) next = 0;
    if (wake && *wake > now_) next = std::min(next, ToSeconds(*wake - now_));
    if (failed_ < failures.size()) {
      next = std::min(next, failures[failed_].first - ToSeconds(now_));
    }
    if (next == kNever) break;
    Advance(std::max(next, 0.0));
    FinishParts(outcome);
    FailDevices();
    const PlanningView view = View();
    const Plan plan = policy.Decide(view);
    ++outcome.decisions;
    if (observe) observe(view, plan);
    changed_.clear();
    first_ = false;
    wake = plan.wake_at;
    Apply(plan, outcome);
  }
  double flow = 0;
  for (const TestJob& job : jobs) {
    if (job.rejected) continue;
    if (job.job.inputs_left > 0) outcome.stuck = true;
    flow += job.finish_s - ToSeconds(job.job.arrival);
  }
  outcome.mean_flow_s = flow / static_cast<double>(std::max<size_t>(jobs.size(), 1));
  return outcome;
}

TestWorld RandomWorld(uint64_t seed, bool shareable, double error) {
  Rng rng(seed);
  TestWorld world;
  const int types = static_cast<int>(rng.UniformInt(1, 3));
  for (int t = 0; t < types; ++t) {
    std::vector<cluster::ShareMode> modes;
    if (shareable && rng.Uniform() < 0.7) modes.push_back(cluster::ShareMode::kMps);
    world.AddDevices(static_cast<int>(rng.UniformInt(1, 4)), DeviceTypeId(static_cast<uint32_t>(t)),
                     GiB(rng.UniformInt(4, 16)), modes, rng.Uniform(0.9, 1.1));
  }
  std::vector<ModelId> models;
  for (int m = 0; m < 4; ++m) {
    FakeEstimator::Model model;
    const double base = rng.Uniform(0.01, 0.1);
    for (int t = 0; t < types; ++t) model.latency_s.push_back(base * rng.Uniform(0.5, 3));
    model.load_s = rng.Uniform(0, 0.5);
    model.memory = MiB(rng.UniformInt(500, 7000));
    model.compute_part = rng.Uniform();
    models.push_back(world.estimator.Add(model));
  }
  double arrival = 0;
  const int jobs = static_cast<int>(rng.UniformInt(1, 30));
  const double gap = rng.Uniform() < 0.3 ? 0 : rng.Uniform(0, 2);
  for (int j = 0; j < jobs; ++j) {
    QueuedJob& job = world.AddJob(models[static_cast<size_t>(rng.UniformInt(0, 3))],
                                  rng.UniformInt(1, 200), arrival, std::exp(error * rng.Normal()));
    arrival += gap * rng.Uniform();
    job.priority = rng.Uniform() < 0.2 ? 1 : 0;
    job.owner = OwnerId(static_cast<uint32_t>(rng.UniformInt(0, 1)));
    if (rng.Uniform() < 0.2) job.gang = static_cast<int>(rng.UniformInt(2, 3));
    if (job.gang == 1 && rng.Uniform() < 0.2) job.max_parallel = 4;
    if (rng.Uniform() < 0.3) job.sharing = workload::Sharing::kNever;
    if (rng.Uniform() < 0.2) job.sharing = workload::Sharing::kSameOwner;
    if (rng.Uniform() < 0.2) {
      job.device_types.push_back(DeviceTypeId(static_cast<uint32_t>(rng.UniformInt(0, types - 1))));
    }
    if (rng.Uniform() < 0.1) job.deadline = job.arrival + FromSeconds(rng.Uniform(1, 20));
  }
  return world;
}

}  // namespace hase::placement

#include "apps/snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "apps/decision_file.h"
#include "base/file.h"
#include "base/json_reason.h"

namespace hase::apps {
namespace {

using Json = nlohmann::ordered_json;
using placement::DeviceState;
using placement::QueuedJob;
using placement::Resident;

constexpr int64_t kVersion = 1;

// The flags that a snapshot keeps, by name.
struct FlagName {
  const char* name;
  std::string SimFlags::* field;
};
constexpr FlagName kFlags[] = {
    {"cluster", &SimFlags::cluster},     {"jobs", &SimFlags::jobs},
    {"format", &SimFlags::format},       {"generate", &SimFlags::generate},
    {"types", &SimFlags::types},         {"world", &SimFlags::world},
    {"estimates", &SimFlags::estimates}, {"truth", &SimFlags::truth},
    {"slowdown", &SimFlags::slowdown},   {"residuals", &SimFlags::residuals},
    {"error", &SimFlags::error},         {"faults", &SimFlags::faults},
};

Json ToJson(const QueuedJob& j, const execution::SimCase& sim) {
  Json out = {{"id", j.id.index()},
              {"job", sim.jobs[j.id.index()].job.job_id},
              {"model", j.model.index()},
              {"batch", j.batch},
              {"inputs_left", j.inputs_left},
              {"arrival_ns", j.arrival.value()},
              {"priority", j.priority},
              {"deadline_ns", j.deadline ? Json(j.deadline->value()) : Json(nullptr)},
              {"owner", j.owner.index()},
              {"max_parallel", j.max_parallel},
              {"running_parts", j.running_parts},
              {"gang", j.gang},
              {"sharing", static_cast<int>(j.sharing)},
              {"host_cores_milli", j.host_cores_milli},
              {"host_memory_bytes", j.host_memory.value()},
              {"memory_factor", j.memory_factor}};
  out["device_types"] = Json::array();
  for (const auto t : j.device_types) out["device_types"].push_back(t.index());
  out["promise"] = {{"from_ns", j.promise.from.value()},
                    {"probability", j.promise.probability},
                    {"planned_ns", j.promise.planned_start.value()},
                    {"expected_ns", j.promise.expected.value()},
                    {"deviation_ns", j.promise.deviation.value()},
                    {"devices", Json::array()}};
  for (const auto d : j.promise.devices) out["promise"]["devices"].push_back(d.index());
  return out;
}

Json ToJson(const Resident& r) {
  return {{"job", r.job.index()},
          {"owner", r.owner.index()},
          {"priority", r.priority},
          {"sharing", static_cast<int>(r.sharing)},
          {"model", r.tenant.model.index()},
          {"batch", r.tenant.batch},
          {"share_milli", r.tenant.share.value()},
          {"mode", static_cast<int>(r.mode)},
          {"memory_bytes", r.memory.value()},
          {"started_ns", r.started.value()},
          {"left_s", r.left ? Json(r.left->mean_s) : Json(nullptr)},
          {"left_variance_s2", r.left ? Json(r.left->variance_s2) : Json(nullptr)},
          {"left_at_ns", r.left_at.value()},
          {"overrunning", r.overrunning}};
}

Json ToJson(const DeviceState& d, const execution::SimCase& sim) {
  Json out = {{"id", d.id.index()},
              {"device", sim.cluster.devices[d.id.index()].name},
              {"type", d.type.index()},
              {"node", d.node.index()},
              {"up", d.up},
              {"memory_bytes", d.memory_total.value()},
              {"speed_factor", d.speed_factor}};
  out["modes"] = Json::array();
  for (const auto mode : d.modes) out["modes"].push_back(static_cast<int>(mode));
  out["warm"] = Json::array();
  for (const auto model : d.warm) out["warm"].push_back(model.index());
  out["foreign"] = {{"sm", d.foreign.sm},
                    {"dram", d.foreign.dram},
                    {"pcie", d.foreign.pcie},
                    {"compute_stretch", d.foreign.compute_stretch},
                    {"stream_stretch", d.foreign.stream_stretch},
                    {"age_s", d.foreign.age_s},
                    {"valid", d.foreign.valid}};
  out["residents"] = Json::array();
  for (const auto& r : d.residents) out["residents"].push_back(ToJson(r));
  return out;
}

// Whole numbers that T cannot hold are refused, as are numbers of the wrong kind.
template <typename T>
T Value(const Json& json, const char* key) {
  try {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const bool fits = json.is_number_unsigned()
                            ? std::in_range<T>(json.get<uint64_t>())
                            : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
      if (!fits)
        throw std::range_error(fmt::format("{} is no whole number it can hold", json.dump()));
    }
    return json.get<T>();
  } catch (const Json::exception& e) {
    throw std::range_error(fmt::format("{}: {}", key, JsonReason(e.what())));
  } catch (const std::range_error& e) {
    throw std::range_error(fmt::format("{}: {}", key, e.what()));
  }
}
template <typename T>
T Get(const Json& json, const char* key) {
  return Value<T>(json.at(key), key);
}
template <typename T>
T Within(const Json& json, const char* key, T lo, T hi) {
  const T value = Get<T>(json, key);
  if (!(value >= lo && value <= hi)) {
    throw std::range_error(fmt::format("{}: {} is not between {} and {}", key, value, lo, hi));
  }
  return value;
}
// 30 years: sums of a few times stay far from the end of the type.
constexpr int64_t kLongestNs = 1'000'000'000'000'000'000;
Nanos Time(const Json& json, const char* key) {
  return Nanos(Within<int64_t>(json, key, -kLongestNs, kLongestNs));
}
Bytes Memory(const Json& json, const char* key) {
  return Bytes(Within<int64_t>(json, key, 0, int64_t{1} << 60));
}
constexpr int kMostInt = std::numeric_limits<int>::max();
constexpr double kMostSeconds = 1e9;
template <typename T>
T Index(const Json& json, const char* key) {
  return T(Get<uint32_t>(json, key));
}

// Values beyond the last of an enumeration are refused like any other bad value.
template <typename T>
T Enum(const Json& json, T last) {
  const int value = Value<int>(json, "value");
  if (value < 0 || value > static_cast<int>(last)) {
    throw std::range_error(fmt::format("{} is none of 0 to {}", value, static_cast<int>(last)));
  }
  return static_cast<T>(value);
}

QueuedJob JobFrom(const Json& json) {
  QueuedJob j;
  j.id = Index<JobId>(json, "id");
  j.model = Index<ModelId>(json, "model");
  j.batch = Within<int64_t>(json, "batch", 1, 1 << 20);
  j.inputs_left = Within<int64_t>(json, "inputs_left", 0, int64_t{1} << 50);
  j.arrival = Time(json, "arrival_ns");
  j.priority = Get<int>(json, "priority");
  if (!json.at("deadline_ns").is_null()) j.deadline = Time(json, "deadline_ns");
  j.owner = Index<OwnerId>(json, "owner");
  j.max_parallel = Within(json, "max_parallel", 1, kMostInt);
  j.running_parts = Within(json, "running_parts", 0, kMostInt);
  j.gang = Within(json, "gang", 1, kMostInt);
  j.sharing = Enum(json.at("sharing"), workload::Sharing::kAny);
  j.host_cores_milli = Within(json, "host_cores_milli", 0, kMostInt);
  j.host_memory = Memory(json, "host_memory_bytes");
  j.memory_factor = Within(json, "memory_factor", 1e-3, 1e3);
  for (const auto& t : json.at("device_types")) {
    j.device_types.push_back(DeviceTypeId(Value<uint32_t>(t, "device_types")));
  }
  const Json& promise = json.at("promise");
  j.promise.from = Time(promise, "from_ns");
  j.promise.probability = Within(promise, "probability", 0.0, 1.0);
  j.promise.planned_start = Time(promise, "planned_ns");
  j.promise.expected = Time(promise, "expected_ns");
  j.promise.deviation = Time(promise, "deviation_ns");
  for (const auto& d : promise.at("devices")) {
    j.promise.devices.push_back(DeviceId(Value<uint32_t>(d, "devices")));
  }
  return j;
}

Resident ResidentFrom(const Json& json) {
  Resident r;
  r.job = Index<JobId>(json, "job");
  r.owner = Index<OwnerId>(json, "owner");
  r.priority = Get<int>(json, "priority");
  r.sharing = Enum(json.at("sharing"), workload::Sharing::kAny);
  r.tenant = {Index<ModelId>(json, "model"), Within<int64_t>(json, "batch", 1, 1 << 20),
              MilliShare(Within<int64_t>(json, "share_milli", 1, kWholeDevice.value()))};
  r.mode = Enum(json.at("mode"), cluster::ShareMode::kCpuQuota);
  r.memory = Memory(json, "memory_bytes");
  r.started = Time(json, "started_ns");
  if (!json.at("left_s").is_null()) {
    r.left = latency::Spread{Within(json, "left_s", 0.0, kMostSeconds),
                             Within(json, "left_variance_s2", 0.0, kMostSeconds * kMostSeconds)};
  }
  r.left_at = Time(json, "left_at_ns");
  r.overrunning = Get<bool>(json, "overrunning");
  return r;
}

DeviceState DeviceFrom(const Json& json) {
  DeviceState d;
  d.id = Index<DeviceId>(json, "id");
  d.type = Index<DeviceTypeId>(json, "type");
  d.node = Index<NodeId>(json, "node");
  d.up = Get<bool>(json, "up");
  d.memory_total = Memory(json, "memory_bytes");
  d.speed_factor = Within(json, "speed_factor", 1e-6, 1e6);
  for (const auto& m : json.at("modes")) {
    d.modes.push_back(Enum(m, cluster::ShareMode::kCpuQuota));
  }
  for (const auto& m : json.at("warm")) d.warm.push_back(ModelId(Value<uint32_t>(m, "warm")));
  const Json& foreign = json.at("foreign");
  d.foreign.sm = Within(foreign, "sm", 0.0, kMostSeconds);
  d.foreign.dram = Within(foreign, "dram", 0.0, kMostSeconds);
  d.foreign.pcie = Within(foreign, "pcie", 0.0, kMostSeconds);
  d.foreign.stream_stretch = Within(foreign, "stream_stretch", 0.0, kMostSeconds);
  d.foreign.compute_stretch = Within(foreign, "compute_stretch", 0.0, kMostSeconds);
  d.foreign.age_s = Within(foreign, "age_s", 0.0, kMostSeconds);
  d.foreign.valid = Get<bool>(foreign, "valid");
  for (const auto& r : json.at("residents")) d.residents.push_back(ResidentFrom(r));
  return d;
}

// Ids that point outside the tables they index.
Status CheckIds(const std::string& path, const Snapshot& s) {
  const auto wrong = [&path](const std::string& what) {
    return Status(
        Invalid(fmt::format("{}: {} does not fit the cluster and jobs that its flags "
                            "make; have the files changed?",
                            path, what)));
  };
  if (s.devices.size() != s.sim->cluster.devices.size()) return wrong("the number of devices");
  if (s.nodes.size() != s.sim->cluster.nodes.size()) return wrong("the number of nodes");
  for (size_t i = 0; i < s.devices.size(); ++i) {
    const auto& d = s.devices[i];
    if (d.id.index() != i || d.type != s.sim->cluster.devices[i].type ||
        d.node != s.sim->cluster.devices[i].node) {
      return wrong(fmt::format("device {}", i));
    }
    for (const auto& r : d.residents) {
      const bool known = r.job.index() < s.sim->jobs.size();
      if (!known || r.tenant.model != s.sim->jobs[r.job.index()].model) {
        return wrong(fmt::format("a resident of device {}", i));
      }
    }
  }
  for (const auto& j : s.queue) {
    if (j.id.index() >= s.sim->jobs.size() || j.model != s.sim->jobs[j.id.index()].model) {
      return wrong(fmt::format("queued job {}", j.id.index()));
    }
    const auto& job = s.sim->jobs[j.id.index()].job;
    if (j.batch != job.batch || j.gang != job.gang || j.max_parallel != job.max_parallel ||
        j.inputs_left > job.inputs || j.running_parts > job.max_parallel) {
      return wrong(fmt::format("batch, gang, parts or inputs of queued job {}", job.job_id));
    }
    const auto type_known = [&](DeviceTypeId t) { return t.index() < s.sim->cluster.types.size(); };
    const auto device_known = [&](DeviceId d) { return d.index() < s.devices.size(); };
    if (!std::ranges::all_of(j.device_types, type_known) ||
        !std::ranges::all_of(j.promise.devices, device_known)) {
      return wrong(fmt::format("what queued job {} asks for or was promised", j.id.index()));
    }
  }
  return {};
}

}  // namespace

Result<SnapshotWhen> ParseSnapshotWhen(const std::string& text) {
  SnapshotWhen when;
  try {
    size_t used = 0;
    if (text.starts_with('#')) {
      when.number = std::stoll(text.substr(1), &used);
      if (used + 1 == text.size() && *when.number >= 0) return when;
    } else {
      const double seconds = std::stod(text, &used);
      when.at = FromSeconds(seconds);
      if (used == text.size() && seconds >= 0 && seconds < 1e9) return when;
    }
  } catch (const std::exception&) {  // said below
  }
  return Usage(
      fmt::format("--snapshot-at {}: seconds below 1e9 (12.5) or a decision's number (#37)", text));
}

std::string PlanText(const placement::Plan& plan, const execution::SimCase& sim) {
  DecisionWriter writer(sim.jobs, sim.cluster);
  for (const auto& decision : plan.decisions) writer.OnDecision(Nanos(0), decision);
  std::string text = writer.text();
  if (plan.wake_at) text += fmt::format("wake at {} ns\n", plan.wake_at->value());
  return text;
}

placement::Plan SnapshotPolicy::Decide(const placement::PlanningView& view) {
  const int64_t number = number_++;
  const bool now =
      text_.empty() && (when_.number ? number == *when_.number : when_.at && view.now >= *when_.at);
  if (!now) return inner_.Decide(view);
  Json out = {{"format", "hase-snapshot"}, {"version", kVersion}};
  Json flags = {{"load", flags_.load}, {"seed", flags_.seed}};
  for (const auto& flag : kFlags) flags[flag.name] = flags_.*flag.field;
  out["flags"] = std::move(flags);
  out["policy"] = spec_;
  out["decision"] = number;
  out["now_ns"] = view.now.value();
  out["queue"] = Json::array();
  for (const auto& job : view.queue) out["queue"].push_back(ToJson(job, sim_));
  out["devices"] = Json::array();
  for (const auto& device : view.devices) out["devices"].push_back(ToJson(device, sim_));
  out["nodes"] = Json::array();
  for (const auto& n : view.nodes) {
    out["nodes"].push_back({{"cores_milli_free", n.cores_milli_free},
                            {"cores_milli_total", n.cores_milli_total},
                            {"memory_free_bytes", n.memory_free.value()},
                            {"memory_total_bytes", n.memory_total.value()}});
  }
  out["promise_outcomes"] = Json::array();
  for (const auto& p : view.promise_outcomes) {
    out["promise_outcomes"].push_back({{"error", p.error}, {"kept", p.kept}});
  }
  placement::Plan plan = inner_.Decide(view);
  out["plan"] = PlanText(plan, sim_);
  text_ = out.dump(1) + "\n";
  return plan;
}

placement::PlanningView Snapshot::View() const {
  placement::PlanningView view;
  view.now = now;
  view.queue = queue;
  view.devices = devices;
  view.nodes = nodes;
  view.types = sim->cluster.types;
  view.estimator = sim->estimator.get();
  view.promise_outcomes = promise_outcomes;
  return view;
}

Result<std::unique_ptr<Snapshot>> ReadSnapshot(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto snapshot = std::make_unique<Snapshot>();
  SimFlags flags;
  try {
    const Json json = Json::parse(text);
    if (!json.is_object() || json.value("format", "") != "hase-snapshot") {
      return Invalid(path + ": not a snapshot (`hase simulate --snapshot` writes them)");
    }
    const auto version = Get<int64_t>(json, "version");
    if (version != kVersion) {
      return Invalid(
          fmt::format("{}: version {}, this program reads version {}", path, version, kVersion));
    }
    const Json& stored = json.at("flags");
    flags.load = Get<double>(stored, "load");
    flags.seed = Get<uint64_t>(stored, "seed");
    for (const auto& flag : kFlags) flags.*flag.field = Get<std::string>(stored, flag.name);
    snapshot->policy = Get<std::string>(json, "policy");
    snapshot->plan = Get<std::string>(json, "plan");
    snapshot->number = Within<int64_t>(json, "decision", 0, kLongestNs);
    snapshot->now = Nanos(Within<int64_t>(json, "now_ns", 0, kLongestNs));
    for (const auto& j : json.at("queue")) snapshot->queue.push_back(JobFrom(j));
    for (const auto& d : json.at("devices")) snapshot->devices.push_back(DeviceFrom(d));
    for (const auto& p : json.at("promise_outcomes")) {
      snapshot->promise_outcomes.push_back({Get<double>(p, "error"), Get<bool>(p, "kept")});
    }
    for (const auto& n : json.at("nodes")) {
      snapshot->nodes.push_back({Within(n, "cores_milli_free", 0, kMostInt),
                                 Within(n, "cores_milli_total", 0, kMostInt),
                                 Memory(n, "memory_free_bytes"), Memory(n, "memory_total_bytes")});
    }
  } catch (const Json::exception& e) {
    return Invalid(fmt::format("{}: {}", path, JsonReason(e.what())));
  } catch (const std::range_error& e) {
    return Invalid(fmt::format("{}: {}", path, e.what()));
  }
  HASE_ASSIGN_OR_RETURN(snapshot->sim, BuildSimCase(flags, flags.seed));
  HASE_RETURN_IF_ERROR(CheckIds(path, *snapshot));
  return snapshot;
}

}  // namespace hase::apps

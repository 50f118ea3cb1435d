#include "apps/snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "apps/decision_file.h"
#include "base/file.h"

namespace hase::apps {
namespace {

using Json = nlohmann::ordered_json;
using placement::DeviceState;
using placement::QueuedJob;
using placement::Resident;

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

template <typename T>
T Get(const Json& json, const char* key) {
  return json.at(key).get<T>();
}
Nanos Time(const Json& json, const char* key) { return Nanos(Get<int64_t>(json, key)); }
template <typename T>
T Index(const Json& json, const char* key) {
  return T(Get<uint32_t>(json, key));
}

// Values beyond the last of an enumeration are refused like any other bad value.
template <typename T>
T Enum(const Json& json, T last) {
  const int value = json.get<int>();
  if (value < 0 || value > static_cast<int>(last)) {
    throw std::range_error(fmt::format("{} is none of 0 to {}", value, static_cast<int>(last)));
  }
  return static_cast<T>(value);
}

QueuedJob JobFrom(const Json& json) {
  QueuedJob j;
  j.id = Index<JobId>(json, "id");
  j.model = Index<ModelId>(json, "model");
  j.batch = Get<int64_t>(json, "batch");
  j.inputs_left = Get<int64_t>(json, "inputs_left");
  j.arrival = Time(json, "arrival_ns");
  j.priority = Get<int>(json, "priority");
  if (!json.at("deadline_ns").is_null()) j.deadline = Time(json, "deadline_ns");
  j.owner = Index<OwnerId>(json, "owner");
  j.max_parallel = Get<int>(json, "max_parallel");
  j.running_parts = Get<int>(json, "running_parts");
  j.gang = Get<int>(json, "gang");
  j.sharing = Enum(json.at("sharing"), workload::Sharing::kAny);
  j.host_cores_milli = Get<int>(json, "host_cores_milli");
  j.host_memory = Bytes(Get<int64_t>(json, "host_memory_bytes"));
  j.memory_factor = Get<double>(json, "memory_factor");
  for (const auto& t : json.at("device_types")) {
    j.device_types.push_back(DeviceTypeId(t.get<uint32_t>()));
  }
  const Json& promise = json.at("promise");
  j.promise.from = Time(promise, "from_ns");
  j.promise.probability = Get<double>(promise, "probability");
  j.promise.planned_start = Time(promise, "planned_ns");
  j.promise.expected = Time(promise, "expected_ns");
  j.promise.deviation = Time(promise, "deviation_ns");
  for (const auto& d : promise.at("devices")) {
    j.promise.devices.push_back(DeviceId(d.get<uint32_t>()));
  }
  return j;
}

Resident ResidentFrom(const Json& json) {
  Resident r;
  r.job = Index<JobId>(json, "job");
  r.owner = Index<OwnerId>(json, "owner");
  r.priority = Get<int>(json, "priority");
  r.sharing = Enum(json.at("sharing"), workload::Sharing::kAny);
  r.tenant = {Index<ModelId>(json, "model"), Get<int64_t>(json, "batch"),
              MilliShare(Get<int64_t>(json, "share_milli"))};
  r.mode = Enum(json.at("mode"), cluster::ShareMode::kCpuQuota);
  r.memory = Bytes(Get<int64_t>(json, "memory_bytes"));
  r.started = Time(json, "started_ns");
  if (!json.at("left_s").is_null()) {
    r.left = latency::Spread{Get<double>(json, "left_s"), Get<double>(json, "left_variance_s2")};
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
  d.memory_total = Bytes(Get<int64_t>(json, "memory_bytes"));
  d.speed_factor = Get<double>(json, "speed_factor");
  for (const auto& m : json.at("modes")) {
    d.modes.push_back(Enum(m, cluster::ShareMode::kCpuQuota));
  }
  for (const auto& m : json.at("warm")) d.warm.push_back(ModelId(m.get<uint32_t>()));
  const Json& foreign = json.at("foreign");
  d.foreign.sm = Get<double>(foreign, "sm");
  d.foreign.dram = Get<double>(foreign, "dram");
  d.foreign.pcie = Get<double>(foreign, "pcie");
  d.foreign.stream_stretch = Get<double>(foreign, "stream_stretch");
  d.foreign.compute_stretch = Get<double>(foreign, "compute_stretch");
  d.foreign.age_s = Get<double>(foreign, "age_s");
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
  return Usage(fmt::format("--snapshot-at {}: seconds (12.5) or a decision's number (#37)", text));
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
  Json out = {{"format", "hase-snapshot"}, {"version", 1}};
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
    const Json& stored = json.at("flags");
    flags.load = Get<double>(stored, "load");
    flags.seed = Get<uint64_t>(stored, "seed");
    for (const auto& flag : kFlags) flags.*flag.field = Get<std::string>(stored, flag.name);
    snapshot->policy = Get<std::string>(json, "policy");
    snapshot->plan = Get<std::string>(json, "plan");
    snapshot->number = Get<int64_t>(json, "decision");
    snapshot->now = Time(json, "now_ns");
    for (const auto& j : json.at("queue")) snapshot->queue.push_back(JobFrom(j));
    for (const auto& d : json.at("devices")) snapshot->devices.push_back(DeviceFrom(d));
    for (const auto& p : json.at("promise_outcomes")) {
      snapshot->promise_outcomes.push_back({Get<double>(p, "error"), Get<bool>(p, "kept")});
    }
    for (const auto& n : json.at("nodes")) {
      snapshot->nodes.push_back({Get<int>(n, "cores_milli_free"), Get<int>(n, "cores_milli_total"),
                                 Bytes(Get<int64_t>(n, "memory_free_bytes")),
                                 Bytes(Get<int64_t>(n, "memory_total_bytes"))});
    }
  } catch (const Json::exception& e) {
    return Invalid(fmt::format("{}: {}", path, e.what()));
  } catch (const std::range_error& e) {
    return Invalid(fmt::format("{}: {}", path, e.what()));
  }
  HASE_ASSIGN_OR_RETURN(snapshot->sim, BuildSimCase(flags, flags.seed));
  HASE_RETURN_IF_ERROR(CheckIds(path, *snapshot));
  return snapshot;
}

}  // namespace hase::apps

#include "execution/backends/simulated/sim_case.h"

#include <fmt/core.h>

#include <array>

namespace hase::execution {
namespace {

struct KindName {
  std::string_view name;
  FaultKind kind;
  bool of_device, needs_factor;
};
constexpr std::array kKinds = {
    KindName{"device_down", FaultKind::kDeviceDown, true, false},
    KindName{"device_up", FaultKind::kDeviceUp, true, false},
    KindName{"slow", FaultKind::kSlowDevice, true, true},
    KindName{"kill", FaultKind::kKillWorker, false, false},
    KindName{"oom", FaultKind::kOutOfMemory, false, false},
    KindName{"cancel", FaultKind::kCancel, false, false},
    KindName{"mispredict", FaultKind::kMispredicted, false, true},
};

Result<KindName> KindOf(const Yaml& y) {
  HASE_ASSIGN_OR_RETURN(const Yaml node, y.Get("kind"));
  HASE_ASSIGN_OR_RETURN(const std::string name, node.Text());
  std::string all;
  for (const auto& kind : kKinds) {
    if (kind.name == name) return kind;
    all += (all.empty() ? "" : ", ") + std::string(kind.name);
  }
  return Invalid(fmt::format("{}: unknown fault '{}' ({})", node.Where(), name, all));
}

Status FindTarget(const Yaml& y, const SimCase& sim, bool of_device, Fault& fault) {
  HASE_ASSIGN_OR_RETURN(const Yaml node, y.Get("target"));
  HASE_ASSIGN_OR_RETURN(const std::string name, node.Text());
  if (of_device) {
    for (const auto& d : sim.cluster.devices) {
      if (d.name != name) continue;
      fault.device = d.id;
      return {};
    }
    return Invalid(
        fmt::format("{}: no device '{}' (devices are called node/index)", node.Where(), name));
  }
  for (uint32_t j = 0; j < sim.jobs.size(); ++j) {
    if (sim.jobs[j].job.job_id != name) continue;
    fault.job = JobId(j);
    return {};
  }
  return Invalid(fmt::format("{}: no job '{}'", node.Where(), name));
}

Result<Nanos> TimeOf(const Yaml& y, std::string_view key) {
  HASE_ASSIGN_OR_RETURN(const Yaml node, y.Get(key));
  HASE_ASSIGN_OR_RETURN(const double seconds, node.Number());
  if (seconds < 0 || seconds > 1e9) {
    return Invalid(
        fmt::format("{}: {} {:g} must be between 0 and 1e9 seconds", node.Where(), key, seconds));
  }
  return FromSeconds(seconds);
}

// How a fault with `for_s` ends.
std::optional<Fault> EndOf(const Fault& fault, Nanos after) {
  Fault end = fault;
  end.at = fault.at + after;
  end.factor = 1;
  if (fault.kind == FaultKind::kDeviceDown)
    end.kind = FaultKind::kDeviceUp;
  else if (fault.kind != FaultKind::kSlowDevice)
    return std::nullopt;
  return end;
}

}  // namespace

std::vector<JobInput> MakeInputs(std::vector<workload::Job> jobs, model::ModelTable& models) {
  std::vector<JobInput> inputs;
  inputs.reserve(jobs.size());
  for (auto& job : jobs) {
    JobInput input;
    input.model = models.Intern({job.model, job.runtime, job.precision});
    input.job = std::move(job);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<std::vector<Fault>> ParseFaults(const Yaml& list, const SimCase& sim) {
  std::vector<Fault> faults;
  HASE_ASSIGN_OR_RETURN(const auto items, list.Items());
  for (const auto& y : items) {
    HASE_RETURN_IF_ERROR(y.CheckKeys({"at_s", "kind", "target", "factor", "for_s"}));
    HASE_ASSIGN_OR_RETURN(const KindName kind, KindOf(y));
    Fault fault;
    fault.kind = kind.kind;
    HASE_ASSIGN_OR_RETURN(fault.at, TimeOf(y, "at_s"));
    HASE_RETURN_IF_ERROR(FindTarget(y, sim, kind.of_device, fault));
    if (kind.needs_factor) {
      HASE_ASSIGN_OR_RETURN(const Yaml node, y.Get("factor"));
      HASE_ASSIGN_OR_RETURN(fault.factor, node.Number());
      if (fault.factor <= 0 || fault.factor > 1000) {
        return Invalid(fmt::format("{}: factor {:g} must be above 0 and at most 1000", node.Where(),
                                   fault.factor));
      }
    }
    faults.push_back(fault);
    if (y.Find("for_s")) {
      HASE_ASSIGN_OR_RETURN(const Nanos after, TimeOf(y, "for_s"));
      const auto end = EndOf(fault, after);
      if (!end) return Invalid(fmt::format("{}: this kind of fault has no end", y.Where()));
      faults.push_back(*end);
    }
  }
  return faults;
}

Result<Outcome> RunCase(const SimCase& sim, placement::Policy& policy, Journal& journal,
                        DecisionSink* decisions) {
  ManualClock clock;
  Simulation simulation(*sim.world, sim.cluster, clock);
  for (const auto& fault : sim.faults) simulation.Inject(fault);
  for (uint32_t j = 0; j < sim.job_factors.size(); ++j) {
    simulation.SetJobFactor(JobId(j), sim.job_factors[j]);
  }
  Engine engine(sim.options, clock, simulation, simulation, policy, *sim.estimator, sim.cluster,
                sim.jobs, journal, decisions);
  return engine.Run();
}

}  // namespace hase::execution

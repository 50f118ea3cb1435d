#include "apps/cli/evaluate_cpu.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/machine.h"
#include "base/file.h"
#include "base/paths.h"
#include "latency/cpu_evaluation.h"
#include "latency/cpu_recording.h"
#include "model/library.h"

namespace hase::cli {
namespace {

using latency::CpuScore;
using nlohmann::ordered_json;

struct Group {
  std::string sweep, of, name;
  latency::CpuSummary summary;
};

void AddGroups(const std::vector<CpuScore>& scores, const std::string& sweep, const std::string& of,
               bool by_what, std::vector<Group>* groups) {
  std::vector<const CpuScore*> all;
  std::map<std::string, std::vector<const CpuScore*>> families, classes;
  for (const auto& s : scores) {
    all.push_back(&s);
    families[s.family].push_back(&s);
    if (by_what) classes[s.what].push_back(&s);
  }
  groups->push_back({sweep, of, "all", Summarise(all)});
  for (const auto& [name, list] : families) groups->push_back({sweep, of, name, Summarise(list)});
  for (const auto& [name, list] : classes) groups->push_back({sweep, of, name, Summarise(list)});
}

ordered_json ToJson(const Group& g) {
  const auto& s = g.summary;
  return {{"sweep", g.sweep == "with"},
          {"of", g.of},
          {"group", g.name},
          {"rows", s.rows},
          {"mape", s.mape},
          {"median_ape", s.median_ape},
          {"r2_log", s.r2_log},
          {"coverage", s.coverage},
          {"interval_score", s.interval_score},
          {"constant_width_score", s.constant_score}};
}

constexpr const char* kRowsHeader =
    "sweep,of,model,batch,what,measured,observed_us,predicted_us,p10_us,p90_us\n";

std::string RowsOf(const latency::CpuEvaluation& e, bool sweep) {
  std::string text;
  const auto add = [&](const char* of, const CpuScore& s) {
    text += fmt::format("{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n", sweep ? 1 : 0, of,
                        s.model, s.batch, s.measured || *of == 'k' ? s.what : "",
                        s.measured ? 1 : 0, s.observed_us, s.predicted_us, s.p10_us, s.p90_us);
  };
  for (const auto& s : e.models) add("model", s);
  for (const auto& s : e.kernels) add("kernel", s);
  return text;
}

// This machine's profiles and sweep of one partition.
Result<latency::CpuRecording> Measured(const EvaluateCpuFlags& flags, cluster::DeviceType* type) {
  HASE_ASSIGN_OR_RETURN(Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(const auto store, OpenSamples(flags.state, machine));
  HASE_RETURN_IF_ERROR(TakeMeasuredBenches(machine, store));
  if (machine.cluster.devices.empty()) return Usage("this machine has no device");
  DeviceId id = machine.cluster.devices.front().id;
  if (!flags.device.empty()) {
    HASE_ASSIGN_OR_RETURN(id, FindDevice(machine.cluster, flags.device));
  }
  *type = machine.cluster.types[machine.cluster.devices[id.index()].type.index()];
  latency::CpuRecording out{machine.fingerprint, type->name, {}};
  HASE_ASSIGN_OR_RETURN(auto samples, store.Query({.device = type->name}));
  for (auto& s : samples) {
    if (s.source == "profile" || s.source == "calibrate") out.samples.push_back(std::move(s));
  }
  return out;
}

Result<latency::CpuRecording> Replayed(const EvaluateCpuFlags& flags, cluster::DeviceType* type) {
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(flags.replay));
  HASE_ASSIGN_OR_RETURN(auto recording, latency::ParseCpuRecording(flags.replay, text));
  type->name = recording.device;
  type->spec.kind = cluster::DeviceKind::kCpu;
  return recording;
}

}  // namespace

Result<int> EvaluateCpu(const EvaluateCpuFlags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto data, DataDir());
  model::ModelLibrary library(data);
  const auto kernels = [&](const std::string& name,
                           int64_t batch) -> Result<const model::ModelKernels*> {
    HASE_ASSIGN_OR_RETURN(const ModelId model, library.Intern({.name = name, .runtime = {}}));
    return library.Kernels(model, model::Runtime::kOrtCpu, batch);
  };
  cluster::DeviceType type;
  HASE_ASSIGN_OR_RETURN(auto profiles,
                        flags.replay.empty() ? Measured(flags, &type) : Replayed(flags, &type));
  auto& samples = profiles.samples;
  latency::FillReuse(samples, kernels);
  if (!flags.record.empty()) {
    HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.record, ToJsonLines(profiles)));
  }
  std::vector<Group> groups;
  int swept = 0;
  std::string rows = kRowsHeader;
  for (const bool sweep : {false, true}) {
    HASE_ASSIGN_OR_RETURN(const auto e, latency::EvaluateCpu(samples, type, kernels, sweep));
    if (sweep && e.sweep_kernels == 0) break;
    swept = e.sweep_kernels;
    AddGroups(e.models, sweep ? "with" : "without", "models", false, &groups);
    AddGroups(e.kernels, sweep ? "with" : "without", "kernels", true, &groups);
    rows += RowsOf(e, sweep);
  }
  if (!flags.rows.empty()) HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.rows, rows));
  if (flags.json) {
    auto list = ordered_json::array();
    for (const auto& g : groups) list.push_back(ToJson(g));
    fmt::print("{}\n", ordered_json{{"machine", profiles.machine},
                                    {"device", type.name},
                                    {"sweep_kernels", swept},
                                    {"groups", list}}
                           .dump(2));
    return 0;
  }
  fmt::print("{} on {}; each family predicted from the others' profiles; sweep: {} kernels\n\n",
             type.name, profiles.machine, swept);
  fmt::print("{:<8} {:<8} {:<16} {:>5} {:>7} {:>8} {:>7} {:>6} {:>6}\n", "sweep", "of", "group",
             "rows", "MAPE %", "median %", "R2 log", "cover", "width");
  for (const auto& g : groups) {
    const auto& s = g.summary;
    fmt::print("{:<8} {:<8} {:<16} {:>5} {:>7.2f} {:>8.2f} {:>7.4f} {:>6.3f} {:>6.2f}\n", g.sweep,
               g.of, g.name, s.rows, 100 * s.mape, 100 * s.median_ape, s.r2_log, s.coverage,
               s.constant_score > 0 ? s.interval_score / s.constant_score : 0);
  }
  fmt::print(
      "kernels: those of {:g} us and more. width = interval score / that of one width for "
      "all, chosen afterwards\n",
      latency::kLeastKernelUs);
  return 0;
}

}  // namespace hase::cli

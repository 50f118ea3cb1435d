#include "apps/sim_inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "apps/model_place.h"
#include "apps/sim_truth.h"
#include "apps/worlds.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/rng.h"
#include "base/yaml.h"
#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "latency/table_estimator.h"
#include "workload/generator.h"
#include "workload/openb.h"
#include "workload/reader.h"

namespace hase::apps {
namespace {

using execution::SimCase;

// {G2: A10, G3: V100-SXM2-32GB}
Result<std::map<std::string, std::string>> LoadTypes(const std::string& path) {
  std::map<std::string, std::string> types;
  if (path.empty()) return types;
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Load(path));
  for (const auto& key : root.Keys()) {
    HASE_ASSIGN_OR_RETURN(types[key], root.Text(key));
  }
  return types;
}

Status LoadClusterInto(const SimFlags& flags, SimCase& sim) {
  if (flags.cluster.empty() && flags.cluster_text.empty()) {
    return Usage("--cluster FILE is needed");
  }
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  if (flags.cluster.ends_with(".csv")) {  // openb's list of nodes
    HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.cluster));
    HASE_ASSIGN_OR_RETURN(const auto disclosed, LoadTypes(flags.types));
    HASE_ASSIGN_OR_RETURN(sim.cluster,
                          workload::ParseOpenbNodes(flags.cluster, text, disclosed, catalogue));
    return {};
  }
  const auto cpu = cluster::CpuSpec(cluster::DetectCpu());
  if (!flags.cluster_text.empty()) {
    HASE_ASSIGN_OR_RETURN(sim.cluster,
                          cluster::ParseCluster("the types", flags.cluster_text, catalogue, cpu));
    return {};
  }
  HASE_ASSIGN_OR_RETURN(sim.cluster, cluster::LoadCluster(flags.cluster, catalogue, cpu));
  return {};
}

Status LoadEstimates(const SimFlags& flags, SimCase& sim) {
  cluster::SlowdownTable slowdowns;
  if (!flags.slowdown.empty()) {
    HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.slowdown));
    HASE_ASSIGN_OR_RETURN(slowdowns,
                          cluster::SlowdownTable::Parse(flags.slowdown, text, sim.models));
  }
  if (flags.estimates.empty()) {
    HASE_ASSIGN_OR_RETURN(sim.estimator, MakePredictor(sim));
    return {};
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.estimates));
  HASE_ASSIGN_OR_RETURN(auto table, latency::TableEstimator::Parse(flags.estimates, text,
                                                                   sim.models, sim.cluster.types));
  table.SetSlowdowns(std::move(slowdowns));
  sim.estimator = std::make_unique<latency::TableEstimator>(std::move(table));
  return {};
}

Result<std::vector<workload::Job>> MakeJobs(const SimFlags& flags, uint64_t seed,
                                            const SimCase& sim) {
  if (!flags.generate.empty() && !flags.jobs.empty()) {
    return Usage("--jobs and --generate exclude each other");
  }
  if (!flags.generate.empty()) {
    HASE_ASSIGN_OR_RETURN(const auto spec, workload::ParseGeneratorSpec(flags.generate));
    HASE_ASSIGN_OR_RETURN(const auto speed, GeneratorSpeeds(flags, sim));
    return workload::Generate(spec, seed, sim.cluster, speed);
  }
  if (flags.jobs.empty()) return Usage("--jobs FILE or --generate SPEC is needed");
  if (flags.format == "openb") {
    HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.jobs));
    HASE_ASSIGN_OR_RETURN(const auto speed, GeneratorSpeeds(flags, sim));
    workload::OpenbOptions options;
    options.load = flags.load;
    return workload::ParseOpenbTasks(flags.jobs, text, options, seed, sim.cluster, speed);
  }
  if (flags.format != "auto") {
    return Usage(fmt::format("--format {}: auto or openb", flags.format));
  }
  return workload::LoadJobs(flags.jobs);
}

// "0.5..3"
Status DrawErrors(const SimFlags& flags, uint64_t seed, SimCase& sim) {
  if (flags.error.empty()) return {};
  const size_t dots = flags.error.find("..");
  double lo = 0, hi = 0;
  try {
    if (dots != std::string::npos) {
      lo = std::stod(flags.error.substr(0, dots));
      hi = std::stod(flags.error.substr(dots + 2));
    }
  } catch (const std::exception&) {
    lo = hi = 0;
  }
  if (!(lo > 0) || !(hi >= lo) || hi > 1000) {
    return Usage(
        fmt::format("--error {}: expected LO..HI with 0 < LO <= HI, as 0.5..3", flags.error));
  }
  Rng rng = Rng(seed).Split("job errors");
  for (size_t j = 0; j < sim.jobs.size(); ++j) {
    sim.job_factors.push_back(std::exp(rng.Uniform(std::log(lo), std::log(hi))));
  }
  return {};
}

// The kernels of all models, with the place in the jobs file of one that cannot be used.
Status FindModels(const SimFlags& flags, SimCase& sim) {
  auto library = MakeLibrary(sim);
  if (library) {
    sim.library = std::move(*library);
    return {};
  }
  if (flags.jobs.empty() || flags.format == "openb") return std::unexpected(library.error());
  HASE_ASSIGN_OR_RETURN(const auto folder, DataDir());
  model::ModelLibrary again(folder);
  for (const auto& input : sim.jobs) {
    const auto& job = input.job;
    const auto found = again.Intern({job.model, job.runtime, job.precision});
    if (!found) return std::unexpected(AtModel(flags.jobs, job.model, found.error()));
  }
  return std::unexpected(library.error());
}

// 0: arrivals stay as they are.
Result<double> LoadAsked(const SimFlags& flags) {
  if (flags.generate.empty()) return flags.format == "openb" ? flags.load : 0;
  HASE_ASSIGN_OR_RETURN(const auto spec, workload::ParseGeneratorSpec(flags.generate));
  return spec.arrivals == workload::Arrivals::kOffline ? 0 : spec.load;
}

}  // namespace

Result<std::unique_ptr<SimCase>> BuildSimCase(const SimFlags& flags, uint64_t seed) {
  auto sim = std::make_unique<SimCase>();
  HASE_RETURN_IF_ERROR(LoadClusterInto(flags, *sim));
  HASE_ASSIGN_OR_RETURN(auto jobs, MakeJobs(flags, seed, *sim));
  sim->jobs = execution::MakeInputs(std::move(jobs), sim->models);
  if (flags.estimates.empty() || flags.world == "W3") {
    HASE_RETURN_IF_ERROR(FindModels(flags, *sim));
  }
  HASE_RETURN_IF_ERROR(LoadEstimates(flags, *sim));
  HASE_ASSIGN_OR_RETURN(sim->world, MakeWorld(flags, seed, *sim));
  HASE_RETURN_IF_ERROR(DrawErrors(flags, seed, *sim));
  // Generators size and space jobs by a reference speed; the load asked for is the world's own.
  HASE_ASSIGN_OR_RETURN(const double load, LoadAsked(flags));
  if (load > 0) SetTrueLoad(*sim, load);
  if (!flags.faults.empty()) {
    HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Load(flags.faults));
    HASE_RETURN_IF_ERROR(root.CheckKeys({"faults"}));
    HASE_ASSIGN_OR_RETURN(const Yaml list, root.Get("faults"));
    HASE_ASSIGN_OR_RETURN(sim->faults, execution::ParseFaults(list, *sim));
  }
  return sim;
}

std::vector<std::string> SplitPolicies(const std::vector<std::string>& texts) {
  std::vector<std::string> policies;
  for (const auto& text : texts) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string part(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const bool option =
          part.find('=') != std::string::npos && part.find(':') == std::string::npos;
      if (option && !policies.empty()) {
        policies.back() += "," + part;
      } else if (!part.empty()) {
        policies.push_back(part);
      }
    }
  }
  return policies;
}

}  // namespace hase::apps

// hase plan: where each service goes, with what share and batch, by `inss` or a rival, judged by
// the request-level world (W3) and set beside a bound.
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "apps/serving/load_case.h"
#include "apps/serving/why.h"
#include "base/file.h"
#include "base/paths.h"
#include "measurement/report/plan_report.h"
#include "placement/services/service_bound.h"
#include "placement/services/service_policies.h"
#include "workload/reader.h"

namespace hase::cli {
namespace {

using Json = nlohmann::ordered_json;
using placement::ServiceObjective;

struct Flags {
  std::string cluster, services, policies = "inss", objective = "max-throughput", state, report;
  uint64_t seed = 1;
  bool unprofiled = false, json = false;
};

struct Planned {
  std::string name;
  placement::ServicePlan plan;
  serving::Judgement judged;
  double plan_ms = 0, cost = 0, throughput = 0;
  int devices = 0;
  std::optional<double> bound_fraction;
};

std::optional<double> BoundFraction(const Planned& p, const placement::CapacityTable& table,
                                    ServiceObjective objective) {
  if (p.plan.instances.empty()) return std::nullopt;
  if (objective == ServiceObjective::kMinCost) {
    const auto bound = placement::BoundOnCost(table);
    return bound && p.cost > 0 ? std::optional(*bound / p.cost) : std::nullopt;
  }
  double asked = 0;
  for (const auto& d : table.view().services) asked += d.rate_rps;
  const auto bound = placement::BoundOnFactor(table);
  return bound && *bound > 0 ? std::optional(p.throughput / (asked * *bound)) : std::nullopt;
}

Json WhyJson(const serving::Why& why) {
  Json others = Json::array();
  for (const auto& a : why.alternatives)
    others.push_back({{"type", a.type},
                      {"chosen", a.chosen},
                      {"share", a.share},
                      {"price_per_hour", a.price_per_hour},
                      {"most_rps", a.most_rps}});
  return {{"binds", why.binds},
          {"share", why.share},
          {"device", why.device},
          {"sustained_rps", why.sustained_rps},
          {"utilisation", why.utilisation},
          {"alternatives", std::move(others)}};
}

Json InstancesJson(const serving::Arena& arena, const placement::ServiceView& view,
                   const placement::CapacityTable& table, const Planned& p, size_t service) {
  Json list = Json::array();
  for (size_t i = 0; i < p.plan.instances.size(); ++i) {
    const auto& instance = p.plan.instances[i];
    if (instance.service.index() != service) continue;
    const auto l = serving::LatencyOf(view, arena.model(), p.plan.instances, i);
    list.push_back({{"device", arena.given().cluster.devices[instance.device.index()].name},
                    {"share", ToFraction(instance.share)},
                    {"mode", cluster::ToString(instance.mode)},
                    {"batch", instance.batch},
                    {"processes", instance.processes},
                    {"rate_rps", instance.rate_rps},
                    {"latency_ms", {{"p50", l.p50_ms}, {"p99", l.p99_ms}}},
                    {"terms_ms",
                     {{"compute", l.compute_ms},
                      {"dram", l.dram_ms},
                      {"launch", l.launch_ms},
                      {"interference", l.interference_ms},
                      {"wait", l.wait_ms}}},
                    {"why", WhyJson(serving::WhyOf(arena, view, table, p.plan.instances, i))}});
  }
  return list;
}

Json ToJson(const serving::Arena& arena, const placement::ServiceView& view, const Planned& p) {
  Json out;
  out["name"] = p.name;
  out["feasible"] = p.plan.rejected.empty() && !p.plan.instances.empty();
  out["devices_used"] = p.devices;
  out["cost_per_hour"] = p.cost;
  out["throughput_rps"] = p.throughput;
  out["world_throughput_rps"] = p.judged.throughput_rps();
  if (p.bound_fraction)
    out["bound_fraction"] = *p.bound_fraction;
  else
    out["bound_fraction"] = nullptr;
  out["slo_violation_fraction"] = p.judged.late_fraction();
  out["services"] = Json::array();
  const placement::CapacityTable table(view, arena.model(), placement::InssOptions().margin);
  for (size_t s = 0; s < view.services.size(); ++s) {
    Json service = {{"name", arena.given().services[s].name},
                    {"slo_ms", view.services[s].slo_ms},
                    {"instances", InstancesJson(arena, view, table, p, s)}};
    if (s < p.judged.at_plan.services.size()) {
      const auto& o = p.judged.at_plan.services[s];
      service["world"] = {{"p50_ms", o.p50_ms},
                          {"p99_ms", o.p99_ms},
                          {"at_percentile_ms", o.at_percentile_ms},
                          {"attainment", o.attainment}};
    }
    out["services"].push_back(std::move(service));
  }
  out["rejected"] = Json::array();
  for (const auto& r : p.plan.rejected)
    out["rejected"].push_back({{"service", arena.given().services[r.service.index()].name},
                               {"why", r.why},
                               {"nearest_feasible", r.nearest_feasible}});
  out["plan_ms"] = p.plan_ms;
  return out;
}

void Print(const serving::Arena& arena, const placement::ServiceView& view, const Planned& p) {
  fmt::print(
      "{}: {:.0f} requests/s planned, {:.0f} in the world, late {:.2f} %\n"
      "  {} devices, {:.2f}/h",
      p.name, p.throughput, p.judged.throughput_rps(), 100 * p.judged.late_fraction(), p.devices,
      p.cost);
  if (p.bound_fraction) fmt::print(", {:.0f} % of the bound", 100 * *p.bound_fraction);
  fmt::print(", planned in {:.1f} ms\n", p.plan_ms);
  fmt::print("  {:<18} {:<8} {:>7} {:<10} {:>5} {:>9} {:>15}\n", "service", "device", "share",
             "mode", "batch", "rate", "p99 of SLO, ms");
  for (size_t i = 0; i < p.plan.instances.size(); ++i) {
    const auto& instance = p.plan.instances[i];
    const auto l = serving::LatencyOf(view, arena.model(), p.plan.instances, i);
    fmt::print("  {:<18} {:<8} {:>5.1f} % {:<10} {:>5} {:>7.1f}/s {:>8.1f} of {:g}\n",
               arena.given().services[instance.service.index()].name,
               arena.given().cluster.devices[instance.device.index()].name,
               100 * ToFraction(instance.share), cluster::ToString(instance.mode), instance.batch,
               instance.rate_rps, l.p99_ms, view.services[instance.service.index()].slo_ms);
  }
}

Result<Planned> PlanWith(const std::string& name, const Flags& flags, ServiceObjective objective,
                         const serving::Arena& arena, const placement::ServiceView& view) {
  HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakeServicePolicy(name, objective));
  Planned p;
  p.name = name;
  const auto start = std::chrono::steady_clock::now();
  p.plan = policy->Decide(view);
  p.plan_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (const auto& i : p.plan.instances) p.throughput += i.rate_rps;
  p.cost = arena.CostPerHour(p.plan.instances);
  p.devices = arena.DevicesUsed(p.plan.instances);
  p.judged = arena.Judge(p.plan.instances,
                         serving::PlannedResponses(view, arena.model(), p.plan.instances),
                         flags.seed + 1000);
  const placement::CapacityTable table(view, arena.model(), 0);
  p.bound_fraction = BoundFraction(p, table, objective);
  return p;
}

Result<int> Plan(const Flags& flags) {
  if (!flags.report.empty()) HASE_RETURN_IF_ERROR(CanWrite(flags.report));
  HASE_ASSIGN_OR_RETURN(const auto objective, placement::ParseServiceObjective(flags.objective));
  HASE_ASSIGN_OR_RETURN(Machine machine, OpenMachine(flags.cluster));
  HASE_ASSIGN_OR_RETURN(auto samples, ReadMeasured(flags.state, machine));
  HASE_ASSIGN_OR_RETURN(auto services, workload::LoadServices(flags.services));
  HASE_ASSIGN_OR_RETURN(auto loaded,
                        serving::MakeCase(std::move(machine.cluster), std::move(services),
                                          std::move(samples), flags.services));
  for (const auto& note : loaded.notes) fmt::print(stderr, "hase plan: {}\n", note);
  world::ServingLawParameters law;
  if (const auto file = DataFile("w3_serving.yaml")) {
    HASE_ASSIGN_OR_RETURN(law, world::ReadServingLaw(file->string()));
  }
  const serving::Arena arena(loaded.given, law, flags.seed, !flags.unprofiled);
  const auto view = arena.View();
  Json out;
  out["subtitle"] =
      fmt::format("{} services on {} devices, objective {}, world seed {}", view.services.size(),
                  view.devices.size(), flags.objective, flags.seed);
  out["devices"] = Json::array();
  for (const auto& d : loaded.given.cluster.devices)
    out["devices"].push_back(
        {{"name", d.name}, {"type", loaded.given.cluster.types[d.type.index()].name}});
  out["policies"] = Json::array();
  bool infeasible = false;
  for (const auto& name : SplitList(flags.policies)) {
    HASE_ASSIGN_OR_RETURN(const Planned p, PlanWith(name, flags, objective, arena, view));
    infeasible = infeasible || !p.plan.rejected.empty() || p.plan.instances.empty();
    if (flags.json || !flags.report.empty()) out["policies"].push_back(ToJson(arena, view, p));
    if (!flags.json) Print(arena, view, p);
    for (const auto& r : p.plan.rejected)
      fmt::print(stderr, "hase plan: {}: service {}: {}{}\n", p.name,
                 arena.given().services[r.service.index()].name, r.why,
                 r.nearest_feasible.empty() ? "" : "; nearest feasible: " + r.nearest_feasible);
  }
  if (flags.json) fmt::print("{}\n", out.dump(2));
  if (!flags.report.empty()) {
    HASE_RETURN_IF_ERROR(measurement::WritePlanReport(flags.report, out.dump()));
  }
  return infeasible ? 3 : 0;
}

}  // namespace

Action SetUpPlan(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--cluster", flags->cluster, "cluster.yaml")->required();
  command.add_option("--services", flags->services, "services.yaml")->required();
  std::string known;
  for (const auto& row : placement::ServicePolicies())
    known += fmt::format("\n    {:<12} {} ({})", row.name, row.help, row.source);
  command.add_option("--policy", flags->policies, "Comma-separated, default inss:" + known);
  command.add_option("--objective", flags->objective,
                     "max-throughput (default), min-cost or given-rates");
  command.add_option("--state", flags->state, "State folder, whose samples.db the predictor reads");
  command.add_option("--seed", flags->seed, "Of the world that judges the plans");
  command.add_flag("--unprofiled", flags->unprofiled,
                   "Plan from the predictor alone, without profile points");
  command.add_option("--report", flags->report,
                     "Also write an HTML page: shares, latency by term, reasons");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags] { return Plan(*flags); };
}

}  // namespace hase::cli

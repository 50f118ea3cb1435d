// The service planner's acceptance run: plans of every policy on the mixes and clusters of
// tests/data/inss, judged by the request-level world; scale; adaptation. Prints the tables of
// docs/services.md. Run from the repository root.
//
//   bench_inss plans [SEEDS]   throughput within the objectives, against rivals and the bound
//   bench_inss cost [SEEDS]    cost at equal objectives, against igniter
//   bench_inss scale           plan and re-plan times
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "apps/serving/arena.h"
#include "base/paths.h"
#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "placement/services/service_policies.h"
#include "placement/services/sketch_estimator.h"
#include "workload/reader.h"

namespace hase::serving {
namespace {

const char* const kMixes[] = {"light", "heavy", "skewed", "many_small", "tight", "mixed"};
const char* const kClusters[] = {"4_equal", "8_of_4"};

struct Setup {
  ServingCase given;
  std::unique_ptr<cluster::Cluster> cluster;  // what the estimator borrows
  std::unique_ptr<placement::SketchEstimator> estimator;
};

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "bench_inss: {}\n", result.error().message);
    std::exit(1);
  }
  return std::move(*result);
}

Setup Load(const std::string& cluster, const std::string& mix) {
  Setup setup;
  const auto catalogue = Must(cluster::Catalogue::Load());
  setup.cluster = std::make_unique<cluster::Cluster>(Must(cluster::LoadCluster(
      "tests/data/inss/cluster_" + cluster + ".yaml", catalogue, cluster::DeviceSpec{})));
  setup.given.cluster = *setup.cluster;
  setup.given.services = Must(workload::LoadServices("tests/data/inss/services_" + mix + ".yaml"));
  std::vector<std::string> names;
  for (const auto& s : setup.given.services) {
    auto at = std::find(names.begin(), names.end(), s.model);
    setup.given.models.push_back(ModelId(static_cast<uint32_t>(at - names.begin())));
    if (at == names.end()) names.push_back(s.model);
  }
  setup.estimator = std::make_unique<placement::SketchEstimator>(names, setup.cluster->types);
  setup.given.estimator = setup.estimator.get();
  return setup;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Geometric means by policy.
class Means {
 public:
  void Add(const std::string& name, double value) {
    sums_[name] += std::log(std::max(1e-9, value));
    ++counts_[name];
  }
  double Of(const std::string& name) { return std::exp(sums_[name] / std::max(1, counts_[name])); }

 private:
  std::map<std::string, double> sums_;
  std::map<std::string, int> counts_;
};

void Plans(int seeds) {
  Means all;
  std::vector<double> errors;
  const auto law = Must(world::ReadServingLaw("data/w3_serving.yaml"));
  for (const auto* cluster : kClusters)
    for (const auto* mix : kMixes) {
      fmt::print("{} {}:", cluster, mix);
      std::map<std::string, double> here;
      for (int seed = 1; seed <= seeds; ++seed) {
        auto setup = Load(cluster, mix);
        const Arena arena(setup.given, law, static_cast<uint64_t>(seed), true);
        const auto view = arena.View();
        for (const auto& row : placement::ServicePolicies()) {
          const auto start = std::chrono::steady_clock::now();
          const auto plan = row.make(placement::ServiceObjective::kMaxThroughput)->Decide(view);
          const double took = Seconds(start);
          const auto planned = PlannedResponses(view, arena.model(), plan.instances);
          const auto judged = arena.Judge(plan.instances, planned, 100 + seed);
          const std::string name(row.name);
          all.Add(name, judged.throughput_rps());
          here[name] += std::log(std::max(1e-9, judged.throughput_rps())) / seeds;
          if (seed == 1)
            fmt::print(" {} {:.0f} (x{:.2f}, late {:.2f} %, {:.0f} ms)", name,
                       judged.throughput_rps(), judged.scale, 100 * judged.at_plan.late_fraction(),
                       1e3 * took);
          if (name == "inss" && seed == 1 && std::getenv("BENCH_DETAIL") != nullptr)
            for (size_t s = 0; s < planned.size(); ++s)
              fmt::print("\n   {} planned {:.1f} ms, world {:.1f} ms, objective {} ms",
                         setup.given.services[s].name, planned[s],
                         judged.at_plan.services[s].at_percentile_ms,
                         setup.given.services[s].slo_ms);
          if (name == "inss")
            for (const double e : judged.response_error) errors.push_back(std::abs(e));
        }
      }
      fmt::print("\n");
      const double best_plain = std::max(here["dedicated"], here["equal-share"]);
      all.Add("/plain", std::exp(here["inss"] - best_plain));
      all.Add("/gpulet", std::exp(here["inss"] - here["gpulet"]));
      fmt::print(
          "   inss / best of dedicated, equal-share {:.2f}, / gpulet {:.2f}, / parvagpu {:.2f}\n",
          std::exp(here["inss"] - best_plain), std::exp(here["inss"] - here["gpulet"]),
          std::exp(here["inss"] - here["parvagpu"]));
      std::fflush(stdout);
    }
  std::sort(errors.begin(), errors.end());
  fmt::print("geometric means: inss / best plain {:.3f}, / gpulet {:.3f}\n", all.Of("/plain"),
             all.Of("/gpulet"));
  fmt::print("planned response against the world's: median error {:.1f} %, p90 {:.1f} %\n",
             100 * errors[errors.size() / 2], 100 * errors[errors.size() * 9 / 10]);
}

// Error of the corrected share law on the world's surfaces, off the nine points.
void Fit() {
  const auto law = Must(world::ReadServingLaw("data/w3_serving.yaml"));
  for (const auto* mix : {"mixed", "light"}) {
    auto setup = Load("8_of_4", mix);
    const Arena arena(setup.given, law, 1, true);
    for (size_t s = 0; s < setup.given.models.size(); ++s)
      for (size_t d = 0; d < setup.given.cluster.devices.size(); d += 2) {
        const auto& device = setup.given.cluster.devices[d];
        const ModelId model = setup.given.models[s];
        const auto l = arena.model().Law(model, device.type);
        double sum = 0, worst = 0;
        int n = 0;
        std::string which;
        for (const int64_t batch : {1, 2, 4, 16, 32})
          for (const int milli : {75, 100, 150, 200, 300, 400, 750, 1000}) {
            const latency::ShareGrant grant{MilliShare(milli), cluster::ShareMode::kMps, 1};
            const double truth = arena.truth().BatchSeconds(
                {model, device.id, grant.share, grant.mode, batch, 0}, batch);
            const double ours =
                latency::RunSeconds(arena.model().Find(model, device.type, batch)->terms, l,
                                    arena.model().sm_count(device.type), grant);
            const double e = ours / truth - 1;
            sum += std::abs(e);
            ++n;
            if (std::abs(e) > std::abs(worst)) {
              worst = e;
              which = fmt::format("batch {} at {}", batch, milli);
            }
          }
        fmt::print(
            "{} {} on {}: mean {:.1f} %, worst {:+.1f} % ({}), overlap {:.2f}, scaling {:.2f}\n",
            mix, setup.given.services[s].name, setup.given.cluster.types[device.type.index()].name,
            100 * sum / n, 100 * worst, which, l.overlap, l.scaling);
      }
  }
}

void Cost(int seeds) {
  Means all;
  const auto law = Must(world::ReadServingLaw("data/w3_serving.yaml"));
  for (const auto* cluster : kClusters)
    for (const auto* mix : kMixes)
      for (int seed = 1; seed <= seeds; ++seed) {
        auto setup = Load(cluster, mix);
        const Arena arena(setup.given, law, static_cast<uint64_t>(seed), true);
        const auto view = arena.View();
        std::map<std::string, double> cost;
        fmt::print("{} {} seed {}:", cluster, mix, seed);
        for (const auto* name : {"inss", "igniter"}) {
          const auto plan =
              (*placement::MakeServicePolicy(name, placement::ServiceObjective::kMinCost))
                  ->Decide(view);
          const auto judged = arena.Judge(plan.instances, {}, 100 + seed);
          cost[name] = plan.instances.empty() ? 0 : arena.CostPerHour(plan.instances);
          fmt::print(" {} {:.2f}/h on {} (late {:.2f} %, x{:.2f})", name, cost[name],
                     arena.DevicesUsed(plan.instances), 100 * judged.at_plan.late_fraction(),
                     judged.scale);
        }
        if (cost["inss"] > 0 && cost["igniter"] > 0)
          all.Add("ratio", cost["inss"] / cost["igniter"]);
        fmt::print("\n");
        std::fflush(stdout);
      }
  fmt::print("geometric mean of cost, inss / igniter: {:.3f}\n", all.Of("ratio"));
}

// `devices` cards of four types and `services` services cut from all mixes, at moderate rates.
void Scale() {
  const std::pair<int, int> sizes[] = {{64, 200}, {256, 800}, {1024, 3000}};
  for (const auto& [devices, services] : sizes) {
    auto base = Load("8_of_4", "mixed");
    ServingCase given;
    given.cluster.types = base.cluster->types;
    for (int i = 0; i < devices; ++i) {
      auto device = base.cluster->devices[static_cast<size_t>(i) % base.cluster->devices.size()];
      device.id = DeviceId(static_cast<uint32_t>(i));
      given.cluster.devices.push_back(device);
    }
    std::vector<std::string> names;
    Rng rng(5);
    for (int s = 0; s < services; ++s) {
      auto service = base.given.services[static_cast<size_t>(s) % base.given.services.size()];
      service.slo_ms *= rng.Uniform(0.8, 2);
      service.rate.front().rate_rps *= rng.Uniform(0.02, 0.5);
      given.models.push_back(base.given.models[static_cast<size_t>(s) % base.given.models.size()]);
      given.services.push_back(std::move(service));
    }
    given.estimator = base.estimator.get();
    const Arena arena(given, {}, 1, true);
    const auto view = arena.View();
    for (const auto objective :
         {placement::ServiceObjective::kMaxThroughput, placement::ServiceObjective::kMinCost}) {
      const auto start = std::chrono::steady_clock::now();
      const auto plan = (*placement::MakeServicePolicy("inss", objective))->Decide(view);
      double rps = 0;
      for (const auto& i : plan.instances) rps += i.rate_rps;
      fmt::print("{} GPUs, {} services, {}: {:.2f} s, {} instances, {} devices, {:.0f} rps\n",
                 devices, services,
                 objective == placement::ServiceObjective::kMinCost ? "min-cost" : "max-throughput",
                 Seconds(start), plan.instances.size(), arena.DevicesUsed(plan.instances), rps);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace hase::serving

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "plans";
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 1;
  if (what == "plans")
    hase::serving::Plans(seeds);
  else if (what == "cost")
    hase::serving::Cost(seeds);
  else if (what == "fit")
    hase::serving::Fit();
  else if (what == "scale")
    hase::serving::Scale();
  else
    return 2;
  return 0;
}

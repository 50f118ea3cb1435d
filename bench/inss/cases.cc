#include "cases.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "workload/reader.h"

namespace hase::bench {
namespace {

const std::string kFolder = "tests/data/inss/";

// Published billions of multiply-adds (the table of make_mixes.py, and the three it does not use).
constexpr std::pair<const char*, double> kGmacs[] = {{"resnet18", 1.814},
                                                     {"resnet34", 3.664},
                                                     {"resnet50", 4.089},
                                                     {"resnet101", 7.801},
                                                     {"resnet152", 11.514},
                                                     {"vgg11", 7.609},
                                                     {"vgg13", 11.308},
                                                     {"vgg16", 15.470},
                                                     {"vgg19", 19.632},
                                                     {"densenet121", 2.834},
                                                     {"densenet161", 7.728},
                                                     {"densenet169", 3.360},
                                                     {"densenet201", 4.291},
                                                     {"mobilenet_v1", 0.569},
                                                     {"mobilenet_v2", 0.301},
                                                     {"mobilenet_v3_small", 0.057},
                                                     {"mobilenet_v3_large", 0.217},
                                                     {"yolov3_tiny", 6.65},
                                                     {"yolov5n", 2.25},
                                                     {"yolov5s", 8.25},
                                                     {"yolov5m", 24.5},
                                                     {"yolov8n", 4.35},
                                                     {"yolov8s", 14.3},
                                                     {"yolov8m", 39.45}};

// Type, price per hour, strength in T4 equivalents (for choosing a load, nothing else).
struct Card {
  const char* type;
  double price, strength;
};
constexpr Card kCards[] = {{"T4", 0.526, 1},         {"L4", 0.805, 3},
                           {"A10G", 1.006, 3.5},     {"V100-SXM2-16GB", 3.06, 1.9},
                           {"A30", 1.8, 1.3},        {"A100-SXM4-40GB", 4.10, 2.4},
                           {"RTX-2080-Ti", 0.6, 1.6}};

double WorkSeconds(double gmacs) { return 2 * gmacs * 1e9 / (0.4 * 8.1e12); }

template <typename T, size_t N>
const T& Pick(Rng& rng, const T (&from)[N]) {
  return from[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(N) - 1))];
}

}  // namespace

std::vector<CaseName> CommittedCases() {
  std::vector<CaseName> names;
  for (const auto* cluster : {"4_equal", "8_of_4"})
    for (const auto* mix : {"light", "heavy", "skewed", "many_small", "tight", "mixed"})
      names.push_back({cluster, mix});
  return names;
}

serving::LoadedCase LoadCommitted(const CaseName& name) {
  return Must(serving::LoadCase(kFolder + "cluster_" + name.cluster + ".yaml",
                                kFolder + "services_" + name.mix + ".yaml"));
}

serving::LoadedCase DrawFresh(uint64_t seed, int times) {
  Rng rng = Rng(seed).Split("fresh mix");
  std::string yaml = "nodes:\n";
  double strength = 0;
  const int64_t types = rng.UniformInt(1, 4);
  std::map<std::string, int64_t> counts;
  int64_t total = 0;
  for (int64_t t = 0; t < types; ++t) {
    const Card& card = Pick(rng, kCards);
    const int64_t count = types == 1 ? rng.UniformInt(3, 5) : rng.UniformInt(1, 3);
    if (counts.contains(card.type) || total + count > 9) continue;
    counts[card.type] = count;
    total += count;
    strength += static_cast<double>(count) * card.strength;
    yaml += fmt::format(
        "  - name: n{}\n    devices:\n      - {{type: {}, count: {}, modes: [{}], "
        "price_per_hour: {}}}\n",
        t, card.type, count * times,
        std::string_view(card.type).starts_with("A100") || std::string_view(card.type) == "A30"
            ? "mps, mig"
            : "mps",
        card.price);
  }
  auto cluster = Must(cluster::ParseCluster("fresh", yaml, Must(cluster::Catalogue::Load()),
                                            cluster::DeviceSpec{}));
  // The load is uneven: some services carry several times what others do.
  const int64_t n = rng.UniformInt(3, 14);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t s = 0; s < n; ++s) sum += weights.emplace_back(rng.Exponential(1) + 0.1);
  const double load = strength * rng.Uniform(0.2, 0.5);
  const double factor[] = {4, 6, 10, 10, 15};
  std::vector<workload::Service> services;
  for (int64_t s = 0; s < n; ++s) {
    const auto& [model, gmacs] = Pick(rng, kGmacs);
    const double work = WorkSeconds(gmacs);
    workload::Service service;
    service.name = fmt::format("{}-{}", model, s);
    service.model = model;
    service.slo_ms = std::ceil(Pick(rng, factor) * (3 + 1000 * work));
    service.slo_percentile = rng.Uniform() < 0.8 ? 0.99 : 0.95;
    service.max_batch = rng.Uniform() < 0.5 ? 32 : 16;
    service.rate = {{Nanos(0), load * weights[static_cast<size_t>(s)] / sum / work}};
    services.push_back(std::move(service));
  }
  return Must(serving::MakeCase(std::move(cluster), std::move(services)));
}

std::string Describe(const serving::ServingCase& given) {
  std::map<std::string, int> counts;
  for (const auto& d : given.cluster.devices) ++counts[given.cluster.types[d.type.index()].name];
  std::string text = fmt::format("{} services on", given.services.size());
  for (const auto& [type, count] : counts) text += fmt::format(" {}x{}", count, type);
  return text;
}

serving::LoadedCase Large(int devices, int services) {
  const auto base = LoadCommitted({"8_of_4", "mixed"});
  cluster::Cluster cluster;
  cluster.nodes = base.given.cluster.nodes;
  cluster.types = base.given.cluster.types;
  for (int i = 0; i < devices; ++i) {
    auto device =
        base.given.cluster.devices[static_cast<size_t>(i) % base.given.cluster.devices.size()];
    device.id = DeviceId(static_cast<uint32_t>(i));
    cluster.devices.push_back(device);
  }
  Rng rng(5);
  std::vector<workload::Service> asked;
  for (int s = 0; s < services; ++s) {
    auto service = base.given.services[static_cast<size_t>(s) % base.given.services.size()];
    service.slo_ms *= rng.Uniform(0.8, 2);
    service.rate.front().rate_rps *= rng.Uniform(0.02, 0.5);
    asked.push_back(std::move(service));
  }
  return Must(serving::MakeCase(std::move(cluster), std::move(asked)));
}

world::ServingLawParameters WorldLaw() {
  return Must(world::ReadServingLaw("data/w3_serving.yaml"));
}

}  // namespace hase::bench

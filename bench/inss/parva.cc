// The ParvaGPU rows from no profile point at all: terms from the kernel-level prediction of the zoo
// model, the share law with its defaults.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "latency/parvagpu.h"
#include "plans.h"

namespace hase::bench {

int RunParva(const RunOptions&) {
  const char* folder = "../shared/data/interference/parvagpu";
  const auto profile = Must(latency::ReadParvaProfile(folder));
  const std::map<std::string, std::string> zoo{
      {"densenet121", "densenet121"},  {"densenet201", "densenet201"},
      {"mobilenetv2", "mobilenet_v2"}, {"resnet152", "resnet152"},
      {"resnet50", "resnet50"},        {"vgg16", "vgg16"}};
  auto cluster = Must(cluster::ParseCluster(
      "parva",
      "nodes:\n  - name: a\n    devices:\n      - {type: A100-SXM4-80GB, count: 1, modes: [mig], "
      "runtime: pytorch}\n",
      Must(cluster::Catalogue::Load()), cluster::DeviceSpec{}));
  std::vector<workload::Service> services;
  for (const auto& [theirs, ours] : zoo) {
    workload::Service s;
    s.name = theirs;
    s.model = ours;
    s.rate = {{Nanos(0), 1}};
    s.slo_ms = 1000;
    services.push_back(std::move(s));
  }
  const auto loaded = Must(serving::MakeCase(std::move(cluster), std::move(services)));
  const latency::ServiceModel model(*loaded.given.estimator, loaded.given.cluster.types);
  double all = 0;
  int scored = 0;
  for (size_t s = 0; s < loaded.given.services.size(); ++s) {
    std::vector<double> errors, solo;
    for (const auto& row : profile.rows) {
      if (row.model != loaded.given.services[s].name || row.latency_s < 0.01) continue;
      const auto* batch = model.Find(loaded.given.models[s], DeviceTypeId(0), row.point.batch);
      if (batch == nullptr) continue;
      const double t =
          latency::RunSeconds(batch->terms, model.Law(loaded.given.models[s], DeviceTypeId(0)),
                              model.sm_count(DeviceTypeId(0)), row.point.grant);
      errors.push_back(t / row.latency_s - 1);
      if (row.point.grant.processes == 1) solo.push_back(t / row.latency_s - 1);
    }
    double sum = 0;
    for (const double e : errors) sum += std::abs(e);
    std::sort(errors.begin(), errors.end());
    std::sort(solo.begin(), solo.end());
    if (errors.empty() || solo.empty()) continue;
    fmt::print(
        "{:<12} {} rows, mean |error| {:.1f} %, median {:+.1f} %, one process: median {:+.1f} "
        "%\n",
        loaded.given.services[s].name, errors.size(),
        100 * sum / static_cast<double>(errors.size()), 100 * errors[errors.size() / 2],
        100 * solo[solo.size() / 2]);
    all += sum;
    scored += static_cast<int>(errors.size());
  }
  fmt::print("all rows from no profile point: {:.1f} %\n", 100 * all / std::max(1, scored));
  return 0;
}

}  // namespace hase::bench

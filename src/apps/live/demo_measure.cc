#include "apps/live/demo_measure.h"

#include <fmt/format.h>

#include "apps/live/setting.h"
#include "execution/worker/bench.h"
#include "execution/worker/partition.h"
#include "execution/worker/profile.h"

namespace hase::live {
namespace {

Result<execution::Partition> PartitionOf(const cluster::Cluster& cluster,
                                         const cluster::Device& device) {
  return execution::Partition::Make(
      {.cores = device.cpu_cores, .quota = cluster.types[device.type.index()].quota});
}

struct Task {
  size_t device;
  std::optional<Pair> pair;  // nullopt: micro-benchmarks
};

std::vector<Task> Tasks(const cluster::Cluster& cluster, bool quick) {
  std::vector<Task> tasks;
  for (size_t d = 0; d < cluster.devices.size(); ++d) tasks.push_back({d, std::nullopt});
  for (size_t d = 0; d < cluster.devices.size(); ++d) {
    int taken = 0;
    for (const Pair& pair : DemoPairs(quick)) {
      if (!pair.profiled) continue;
      // On the slower devices: two light models of different make.
      const bool light = pair.model == "resnet18" || pair.model == "mobilenet_v2";
      if (d > 0 && (!light || ++taken > 2)) continue;
      tasks.push_back({d, pair});
    }
  }
  return tasks;
}

Status Profile(const DemoMeasuring& options, const Pair& pair, const cluster::Cluster& cluster,
               const cluster::Device& device, model::ModelLibrary& library,
               latency::SampleStore& store) {
  const std::string name(pair.model);
  const auto& type = cluster.types[device.type.index()];
  HASE_ASSIGN_OR_RETURN(const auto partition, PartitionOf(cluster, device));
  HASE_ASSIGN_OR_RETURN(const ModelId id, library.Intern({.name = name, .runtime = {}}));
  execution::ProfileRequest request;
  HASE_ASSIGN_OR_RETURN(request.onnx, ModelFile(name, options.state));
  HASE_ASSIGN_OR_RETURN(request.kernels, library.Kernels(id, type.runtime, pair.batch));
  request.device = type.name;
  request.kernel_times = device.id.index() == 0;
  request.measure.min_time = FromMillis(options.quick ? 300 : 700);
  request.scratch = options.state;
  HASE_ASSIGN_OR_RETURN(const auto result, execution::ProfileModel(partition, request));
  HASE_RETURN_IF_ERROR(store.Append(std::span(&result.whole, 1)));
  return store.Append(result.kernels);
}

}  // namespace

Status MeasureForDemo(const DemoMeasuring& options, model::ModelLibrary& library,
                      cluster::Cluster& cluster, latency::SampleStore& store) {
  const auto tasks = Tasks(cluster, options.quick);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const cluster::Device& device = cluster.devices[tasks[i].device];
    cluster::DeviceType& type = cluster.types[device.type.index()];
    const std::string what = tasks[i].pair ? fmt::format("{} ×{} on {}", tasks[i].pair->model,
                                                         tasks[i].pair->batch, device.name)
                                           : fmt::format("micro-benchmarks on {}", device.name);
    options.progress(what, static_cast<double>(i) / static_cast<double>(tasks.size()));
    if (tasks[i].pair) {
      HASE_RETURN_IF_ERROR(Profile(options, *tasks[i].pair, cluster, device, library, store));
      continue;
    }
    HASE_ASSIGN_OR_RETURN(const auto partition, PartitionOf(cluster, device));
    execution::BenchOptions bench;
    bench.scratch = options.state;
    HASE_ASSIGN_OR_RETURN(type.bench, execution::RunMicroBenchmarks(partition, bench));
    HASE_RETURN_IF_ERROR(store.PutBench(type.name, type.bench));
  }
  options.progress("done", 1);
  return {};
}

}  // namespace hase::live

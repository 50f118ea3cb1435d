#include "workload/openb.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/rng.h"
#include "cluster/micro_benchmarks.h"

namespace hase::workload {
namespace {

struct Task {
  std::string name, owner;
  double cores = 0, memory_mib = 0, cards = 0;
  int64_t count = 1;
  double created_s = 0, lived_s = 0;
};

Result<std::vector<Task>> ReadTasks(const std::string& name, std::string_view text,
                                    const OpenbOptions& options) {
  HASE_ASSIGN_OR_RETURN(
      const CsvTable t,
      CsvTable::Parse(name, text, {},
                      {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos",
                       "creation_time", "deletion_time", "scheduled_time"}));
  std::vector<Task> tasks;
  for (size_t row = 0; row < t.rows(); ++row) {
    Task task;
    HASE_ASSIGN_OR_RETURN(task.count, t.RequiredInteger(row, "num_gpu"));
    if (task.count == 0) continue;
    HASE_ASSIGN_OR_RETURN(const int64_t milli, t.RequiredInteger(row, "gpu_milli"));
    HASE_ASSIGN_OR_RETURN(const double created, t.RequiredNumber(row, "creation_time"));
    HASE_ASSIGN_OR_RETURN(const auto scheduled, t.Number(row, "scheduled_time"));
    HASE_ASSIGN_OR_RETURN(const auto deleted, t.Number(row, "deletion_time"));
    HASE_ASSIGN_OR_RETURN(task.cores, t.RequiredNumber(row, "cpu_milli"));
    HASE_ASSIGN_OR_RETURN(task.memory_mib, t.RequiredNumber(row, "memory_mib"));
    if (task.count < 0 || milli <= 0 || milli > 1000 || created < 0 || task.cores < 0 ||
        task.memory_mib < 0) {
      return Invalid(fmt::format("{}: a task with {} cards of {} thousandths",
                                 t.Where(row, "num_gpu"), task.count, milli));
    }
    const double began = scheduled.value_or(created);
    const double ended = deleted.value_or(began);
    if (ended <= began) continue;  // never ran
    task.name = std::string(t.Text(row, "name"));
    task.owner = std::string(t.Text(row, "qos"));
    task.cards = static_cast<double>(milli) / 1000;
    task.created_s = created;
    task.lived_s = std::min(ended - began, options.longest_s);
    tasks.push_back(std::move(task));
    if (options.first > 0 && std::ssize(tasks) >= options.first) break;
  }
  if (tasks.empty()) return Invalid(fmt::format("{}: no task used a GPU", name));
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.created_s < b.created_s; });
  return tasks;
}

// Harmonic mean of the batch time over the cluster's devices; 0 where it runs nowhere.
double MeanBatchSeconds(const std::string& model, int64_t batch, const cluster::Cluster& cluster,
                        const std::vector<double>& devices_of_type, const SpeedTable& speed) {
  double rate = 0, devices = 0;
  for (uint32_t type = 0; type < cluster.types.size(); ++type) {
    const auto seconds = speed(model, DeviceTypeId(type), batch);
    if (!seconds || *seconds <= 0) continue;
    rate += devices_of_type[type] / *seconds;
    devices += devices_of_type[type];
  }
  return rate > 0 ? devices / rate : 0;
}

}  // namespace

Result<cluster::Cluster> ParseOpenbNodes(const std::string& name, std::string_view text,
                                         const std::map<std::string, std::string>& disclosed,
                                         const cluster::Catalogue& catalogue) {
  HASE_ASSIGN_OR_RETURN(
      const CsvTable t,
      CsvTable::Parse(name, text, {}, {"sn", "cpu_milli", "memory_mib", "gpu", "model"}));
  cluster::Cluster cluster;
  std::map<std::string, DeviceTypeId> types;
  for (size_t row = 0; row < t.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const int64_t gpus, t.RequiredInteger(row, "gpu"));
    HASE_ASSIGN_OR_RETURN(const int64_t cores, t.RequiredInteger(row, "cpu_milli"));
    HASE_ASSIGN_OR_RETURN(const int64_t memory, t.RequiredInteger(row, "memory_mib"));
    const std::string model(t.Text(row, "model"));
    const auto at = disclosed.find(model);
    const std::string wanted = at == disclosed.end() ? model : at->second;
    // A type that the trace does not disclose and nobody names is left out.
    if (gpus <= 0 || (at == disclosed.end() && !catalogue.Find(model))) continue;
    if (gpus > 64 || cores < 0 || memory < 0) {
      return Invalid(fmt::format("{}: a node with {} GPUs", t.Where(row, "gpu"), gpus));
    }
    if (!types.contains(wanted)) {
      HASE_ASSIGN_OR_RETURN(auto spec, catalogue.Find(wanted));
      cluster::DeviceType type;
      type.name = spec.name;
      type.bench = cluster::EstimateMicroBenchmarks(spec);
      type.spec = std::move(spec);
      types.emplace(wanted, DeviceTypeId(static_cast<uint32_t>(cluster.types.size())));
      cluster.types.push_back(std::move(type));
    }
    const NodeId node(static_cast<uint32_t>(cluster.nodes.size()));
    cluster.nodes.push_back(
        {node, std::string(t.Text(row, "sn")), static_cast<int>(cores / 1000), MiB(memory)});
    for (int64_t g = 0; g < gpus; ++g) {
      cluster::Device device;
      device.id = DeviceId(static_cast<uint32_t>(cluster.devices.size()));
      device.name = fmt::format("{}/{}", t.Text(row, "sn"), g);
      device.type = types.at(wanted);
      device.node = node;
      device.modes = cluster::EnforceableModes(cluster.types[device.type.index()].spec);
      cluster.devices.push_back(std::move(device));
    }
  }
  if (cluster.devices.empty()) return Invalid(fmt::format("{}: no node with a known GPU", name));
  return cluster;
}

Result<std::vector<Job>> ParseOpenbTasks(const std::string& name, std::string_view text,
                                         const OpenbOptions& options, uint64_t seed,
                                         const cluster::Cluster& cluster, const SpeedTable& speed) {
  HASE_ASSIGN_OR_RETURN(const auto tasks, ReadTasks(name, text, options));
  std::vector<double> devices_of_type(cluster.types.size());
  for (const auto& d : cluster.devices) devices_of_type[d.type.index()] += 1;
  Rng rng = Rng(seed).Split("openb");
  std::vector<Job> jobs;
  double work = 0;
  for (const Task& task : tasks) {
    const auto& families = ModelFamilies();
    const auto& family = families[static_cast<size_t>(rng.UniformInt(0, std::ssize(families) - 1))];
    Job job;
    job.model = family[static_cast<size_t>(rng.UniformInt(0, std::ssize(family) - 1))];
    const int64_t power = rng.UniformInt(0, task.cards < 0.25 ? 2 : 6);
    job.batch = int64_t{1} << power;
    const double batch_s = MeanBatchSeconds(job.model, job.batch, cluster, devices_of_type, speed);
    if (batch_s <= 0) continue;
    job.job_id = task.name;
    job.owner = task.owner;
    job.gang = static_cast<int>(task.count);
    // The share of a card that the task took is part of its work, not of its time.
    const double device_s = task.lived_s * task.cards;
    const double batches = std::max(1.0, std::round(device_s / batch_s));
    job.inputs = static_cast<int64_t>(batches) * job.batch * task.count;
    if (task.cards >= 1) job.sharing = Sharing::kNever;
    job.host_cores_milli = static_cast<int>(task.cores / static_cast<double>(task.count));
    job.host_memory = MiB(std::llround(task.memory_mib / static_cast<double>(task.count)));
    job.arrival = FromSeconds(task.created_s - tasks.front().created_s);
    work += batches * batch_s * static_cast<double>(task.count);
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return Invalid(fmt::format("{}: no model runs on this cluster", name));
  if (options.load > 0 && jobs.back().arrival > Nanos(0)) {
    const double wanted = work / (options.load * static_cast<double>(cluster.devices.size()));
    const double factor = wanted / ToSeconds(jobs.back().arrival);
    for (auto& job : jobs) job.arrival = Scale(job.arrival, factor);
  }
  return jobs;
}

}  // namespace hase::workload

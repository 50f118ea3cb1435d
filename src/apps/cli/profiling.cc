#include "apps/cli/profiling.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "apps/cli/calibration.h"
#include "apps/cli/model_file.h"
#include "base/paths.h"

namespace hase::cli {
namespace {

using cluster::Device;
using cluster::DeviceType;

struct Pair {
  std::string model;
  ModelId id;
  int64_t batch = 1;
  double reference_us = 0;
};

class Profiler {
 public:
  Profiler(const Machine& machine, latency::SampleStore& store, model::ModelLibrary& library,
           const ProfilePlan& plan, const std::function<void(const std::string&)>& progress)
      : machine_(machine), store_(store), library_(library), plan_(plan), progress_(progress) {}

  Result<std::vector<ProfileRow>> Run() {
    HASE_ASSIGN_OR_RETURN(state_, StateDir(plan_.state));
    for (const auto& model : plan_.models) {
      HASE_ASSIGN_OR_RETURN(const ModelId id, library_.Intern({.name = model, .runtime = {}}));
      for (const int64_t batch : plan_.batches) pairs_.push_back({model, id, batch});
    }
    if (!plan_.device.empty()) {
      HASE_ASSIGN_OR_RETURN(const auto id, FindDevice(machine_.cluster, plan_.device));
      const Device& device = machine_.cluster.devices[id.index()];
      for (Pair& pair : pairs_) HASE_RETURN_IF_ERROR(Measure(device, pair, true));
      HASE_RETURN_IF_ERROR(Calibrate(device));
      return std::move(rows_);
    }
    HASE_RETURN_IF_ERROR(RunAll());
    return std::move(rows_);
  }

 private:
  const DeviceType& TypeOf(const Device& device) const {
    return machine_.cluster.types[device.type.index()];
  }

  // One device for each CPU type, by core count, greatest quota first.
  std::map<int, std::vector<const Device*>> Partitions() const {
    std::map<int, std::vector<const Device*>> groups;
    std::vector<bool> seen(machine_.cluster.types.size());
    for (const auto& device : machine_.cluster.devices) {
      if (TypeOf(device).spec.kind != cluster::DeviceKind::kCpu) continue;
      if (seen[device.type.index()]) continue;
      seen[device.type.index()] = true;
      groups[TypeOf(device).cores].push_back(&device);
    }
    for (auto& [cores, devices] : groups) {
      std::stable_sort(devices.begin(), devices.end(), [&](const Device* a, const Device* b) {
        return TypeOf(*a).quota > TypeOf(*b).quota;
      });
    }
    return groups;
  }

  Status RunAll() {
    const auto groups = Partitions();
    if (groups.empty()) {
      return Usage("the cluster has no CPU partition; GPUs cannot be profiled in this build");
    }
    for (const auto& [cores, devices] : groups) {
      for (Pair& pair : pairs_) HASE_RETURN_IF_ERROR(Measure(*devices[0], pair, true));
      HASE_RETURN_IF_ERROR(Calibrate(*devices[0]));
      auto quick = pairs_;
      std::stable_sort(quick.begin(), quick.end(), [](const Pair& a, const Pair& b) {
        return a.reference_us < b.reference_us;
      });
      if (quick.size() > static_cast<size_t>(plan_.probes)) quick.resize(plan_.probes);
      for (size_t i = 1; i < devices.size(); ++i) {
        for (Pair& pair : quick) HASE_RETURN_IF_ERROR(Measure(*devices[i], pair, false));
      }
    }
    return {};
  }

  Status Calibrate(const Device& device) {
    if (!plan_.calibrate) return {};
    if (progress_) progress_(fmt::format("calibration of {}", TypeOf(device).name));
    HASE_RETURN_IF_ERROR(EnsureCalibrated(machine_, device, plan_.state, store_));
    return {};
  }

  Result<bool> TakeStored(const std::string& device, const std::string& model, Pair& pair,
                          bool kernels) {
    const latency::SampleQuery query{
        .device = device, .model = model, .source = "profile", .batch = pair.batch};
    if (plan_.force) {
      HASE_RETURN_IF_ERROR(store_.Remove(query));
      return false;
    }
    HASE_ASSIGN_OR_RETURN(const auto samples, store_.Query(query));
    ProfileRow row{.model = model, .device = device, .batch = pair.batch, .stored = true};
    bool whole = false;
    for (const auto& sample : samples) {
      if (sample.whole_model) row.whole = sample;
      whole = whole || sample.whole_model;
      row.kernels += !sample.whole_model;
    }
    if (!whole || (kernels && row.kernels == 0)) {
      HASE_RETURN_IF_ERROR(store_.Remove(query));  // half a profile is none
      return false;
    }
    pair.reference_us = std::max(pair.reference_us, row.whole.latency_us);
    rows_.push_back(std::move(row));
    return true;
  }

  Status Measure(const Device& device, Pair& pair, bool kernels) {
    const std::string& type = TypeOf(device).name;
    const std::string model = library_.graph(pair.id).model;
    HASE_ASSIGN_OR_RETURN(const bool stored, TakeStored(type, model, pair, kernels));
    if (stored) return {};
    if (progress_) progress_(fmt::format("{} batch {} on {}", model, pair.batch, type));
    execution::ProfileRequest request;
    HASE_ASSIGN_OR_RETURN(request.onnx, ModelFile(pair.model, state_));
    HASE_ASSIGN_OR_RETURN(request.kernels,
                          library_.Kernels(pair.id, model::Runtime::kOrtCpu, pair.batch));
    HASE_ASSIGN_OR_RETURN(const auto partition, PartitionOf(machine_.cluster, device));
    request.device = type;
    request.kernel_times = kernels;
    request.scratch = state_;
    request.rounds = plan_.rounds;
    request.measure.min_time = plan_.min_time;
    request.measure.max_time = plan_.max_time;
    if (!kernels) request.measure.min_runs = 3;
    HASE_ASSIGN_OR_RETURN(auto result, execution::ProfileModel(partition, request));
    auto samples = std::move(result.kernels);
    ProfileRow row{.model = model, .device = type, .batch = pair.batch, .whole = result.whole};
    row.kernels = static_cast<int>(samples.size());
    row.missing = result.missing;
    row.factor = result.factor;
    row.unmatched = result.unmatched;
    samples.push_back(std::move(result.whole));
    HASE_RETURN_IF_ERROR(store_.Append(samples, CoreClockMhz(device.cpu_cores.front())));
    pair.reference_us = std::max(pair.reference_us, row.whole.latency_us);
    rows_.push_back(std::move(row));
    return {};
  }

  const Machine& machine_;
  latency::SampleStore& store_;
  model::ModelLibrary& library_;
  const ProfilePlan& plan_;
  const std::function<void(const std::string&)>& progress_;
  std::filesystem::path state_;
  std::vector<Pair> pairs_;
  std::vector<ProfileRow> rows_;
};

}  // namespace

Result<std::vector<ProfileRow>> RunProfiles(
    const Machine& machine, latency::SampleStore& store, model::ModelLibrary& library,
    const ProfilePlan& plan, const std::function<void(const std::string&)>& progress) {
  return Profiler(machine, store, library, plan, progress).Run();
}

}  // namespace hase::cli

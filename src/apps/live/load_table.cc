#include "apps/live/load_table.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <thread>

#include "cluster/telemetry/cpu.h"
#include "execution/worker/worker.h"
#include "latency/evidence.h"

namespace hase::live {
namespace {

using cluster::telemetry::Snapshot;

constexpr double kSettle_s = 0.4, kInterval_s = 0.8;
constexpr int kQuietPolls = 3, kSoloEvery = 4;  // solo times are taken again after so many cases

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Strangers that are ended with this object.
class Strangers {
 public:
  Strangers() = default;
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  ~Strangers() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
  }
  Status Start(const std::filesystem::path& program, const std::string& arguments) {
    constexpr int kAtMost_s = 120;  // should this process die
    const std::string command = fmt::format("'{}' {} {}", program.string(), arguments, kAtMost_s);
    FILE* pipe = popen(command.c_str(), "r");
    int pid = 0;
    const bool found = pipe != nullptr && fscanf(pipe, "%d", &pid) == 1 && pid > 1;
    if (pipe != nullptr) pclose(pipe);
    if (!found) return Unavailable(fmt::format("{}: could not be started", command));
    pids_.push_back(pid);
    return {};
  }

 private:
  std::vector<pid_t> pids_;
};

template <typename T>
Result<T> Expect(execution::Worker& worker, const std::string& model) {
  for (;;) {
    auto message = worker.Receive(FromSeconds(300));
    if (!message) return Unavailable(fmt::format("{}: the worker does not answer", model));
    if (auto* failure = std::get_if<execution::Failure>(&*message)) {
      return Invalid(fmt::format("{}: {}", model, failure->why));
    }
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
  }
}

struct Runner {
  const LoadModel* model;
  execution::Worker worker;
  std::vector<double> solo_ms = {};

  // Mean time of one run, over at least `solo_s` of work.
  Result<double> Run(double solo_s) {
    const double one = solo_ms.empty() ? 0.02 : solo_ms.front() * 1e-3;
    const auto runs = static_cast<int64_t>(std::max(5.0, std::ceil(solo_s / one)));
    HASE_RETURN_IF_ERROR(worker.Send(execution::RunRequest{.inputs = runs}));
    HASE_ASSIGN_OR_RETURN(const auto chunk, Expect<execution::Chunk>(worker, model->name));
    return ToMillis(chunk.busy) / static_cast<double>(std::max<int64_t>(chunk.batches, 1));
  }
};

Result<execution::Worker> SpawnLoaded(const execution::Partition& partition,
                                      const LoadModel& model) {
  execution::LoadRequest load;
  load.model = model.onnx.string();
  load.batch = 1;
  load.threads = static_cast<int>(partition.cores().size());
  load.warm_up = 2;
  HASE_ASSIGN_OR_RETURN(auto worker, execution::Worker::Spawn(partition, std::move(load)));
  HASE_RETURN_IF_ERROR(Expect<execution::Loaded>(worker, model.name));
  return worker;
}

class Table {
 public:
  Table(const std::vector<LoadModel>& models, const LoadTableOptions& options,
        execution::Partition partition)
      : models_(models), options_(options), partition_(std::move(partition)) {
    cluster::telemetry::CpuOptions cpu;
    cpu.probe_cores = options_.cores;
    source_ = cluster::telemetry::MakeCpu(cpu);
  }

  Result<std::vector<latency::LoadRow>> Run(const std::vector<LoadCase>& cases) {
    for (const auto& model : models_) {
      Say("loading " + model.name);
      HASE_ASSIGN_OR_RETURN(auto worker, SpawnLoaded(partition_, model));
      runners_.push_back({&model, std::move(worker)});
    }
    Say("at rest");
    for (int i = 0; i < kQuietPolls; ++i) {
      HASE_ASSIGN_OR_RETURN(const Snapshot snapshot, source_->Poll());
      quiet_ = latency::QuietestOf(snapshot, quiet_);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      if (i % kSoloEvery == 0) HASE_RETURN_IF_ERROR(MeasureSolo());
      HASE_RETURN_IF_ERROR(RunCase(cases[i]));
    }
    HASE_RETURN_IF_ERROR(MeasureSolo());
    for (auto& row : rows_) {
      for (const auto& runner : runners_) {
        if (runner.model->name == row.model) row.solo_ms = latency::MedianOf(runner.solo_ms);
      }
    }
    return std::move(rows_);
  }

 private:
  void Say(const std::string& line) const {
    if (options_.progress) options_.progress(options_.device + ": " + line);
  }

  Status MeasureSolo() {
    for (auto& runner : runners_) {
      HASE_ASSIGN_OR_RETURN(const double ms, runner.Run(options_.run_s / 2));
      runner.solo_ms.push_back(ms);
    }
    return {};
  }

  Status RunCase(const LoadCase& load_case) {
    Say(load_case.label);
    if (load_case.tenant_share > 0) return RunTenants(load_case);
    Strangers strangers;
    for (const auto& arguments : load_case.strangers) {
      HASE_RETURN_IF_ERROR(strangers.Start(options_.stranger, arguments));
    }
    Sleep(kSettle_s);
    HASE_RETURN_IF_ERROR(source_->Poll());
    Sleep(kInterval_s);
    HASE_ASSIGN_OR_RETURN(const Snapshot snapshot, source_->Poll());
    for (auto& runner : runners_) {
      HASE_ASSIGN_OR_RETURN(const double ms, runner.Run(options_.run_s));
      Note(load_case, *runner.model, ms, snapshot);
    }
    return {};
  }

  // Two tenants on the same cores, both in the ledger: shares that sum to more than there is.
  Status RunTenants(const LoadCase& load_case) {
    HASE_ASSIGN_OR_RETURN(const auto theirs,
                          partition_.Divide(ShareFromFraction(load_case.tenant_share), {}));
    HASE_ASSIGN_OR_RETURN(const auto ours,
                          partition_.Divide(ShareFromFraction(load_case.share), {}));
    HASE_ASSIGN_OR_RETURN(auto tenant, SpawnLoaded(theirs, models_.front()));
    HASE_RETURN_IF_ERROR(source_->Poll());
    Sleep(kInterval_s);
    HASE_ASSIGN_OR_RETURN(const Snapshot snapshot, source_->Poll());
    HASE_RETURN_IF_ERROR(
        tenant.Send(execution::RunRequest{.inputs = 1'000'000'000, .chunk_inputs = 1}));
    for (const auto& runner : runners_) {
      HASE_ASSIGN_OR_RETURN(auto worker, SpawnLoaded(ours, *runner.model));
      Runner mine{runner.model, std::move(worker), runner.solo_ms};
      HASE_ASSIGN_OR_RETURN(const double ms, mine.Run(options_.run_s));
      Note(load_case, *runner.model, ms, snapshot);
      auto& row = rows_.back();
      row.demand.share = load_case.share;
      row.ledger.push_back(models_.front().demand);
      row.ledger.back().share = load_case.tenant_share;
      while (tenant.Receive(Nanos(0))) {  // its reports would fill the socket
      }
    }
    return {};
  }

  void Note(const LoadCase& load_case, const LoadModel& model, double ms,
            const Snapshot& snapshot) {
    latency::LoadRow row;
    row.model = model.name;
    row.device = options_.device;
    row.stranger = load_case.label;
    row.fitted = load_case.fitted || model.fitted;
    row.cores = options_.cores;
    row.quota = options_.quota;
    row.observed_ms = ms;
    row.demand = model.demand;
    row.quiet = quiet_;
    row.snapshot = snapshot;
    rows_.push_back(std::move(row));
  }

  const std::vector<LoadModel>& models_;
  const LoadTableOptions& options_;
  execution::Partition partition_;
  std::unique_ptr<cluster::telemetry::Source> source_;
  std::list<Runner> runners_;
  latency::QuietProbe quiet_;
  std::vector<latency::LoadRow> rows_;
};

}  // namespace

std::vector<LoadCase> LoadCases(int machine_cores, const std::vector<int>& cores) {
  const int mine = cores.front();
  int other = mine;
  for (int core = 0; core < machine_cores; ++core) {
    if (std::ranges::find(cores, core) == cores.end()) other = core;
  }
  std::vector<LoadCase> cases;
  const auto add = [&](std::string label, std::vector<std::string> strangers, bool fitted) {
    cases.push_back({std::move(label), std::move(strangers), fitted});
  };
  const auto on = [](const char* kind, double duty, int core) {
    return fmt::format("{} {:g} 1 {}", kind, duty, core);
  };
  add("none", {}, false);
  add("compute, same core", {on("compute", 1, mine)}, true);
  add("compute half the time, same core", {on("compute", 0.5, mine)}, false);
  add("bandwidth, same core", {on("bandwidth", 1, mine)}, false);
  add("mixed 30 % of the time, same core", {on("mixed", 0.3, mine)}, false);
  add("two computing, same core", {on("compute", 1, mine), on("compute", 1, mine)}, false);
  add("compute and bandwidth, same core", {on("compute", 1, mine), on("bandwidth", 1, mine)},
      false);
  if (other != mine) {
    add("compute, other core", {on("compute", 1, other)}, false);
    add("bandwidth, other core", {on("bandwidth", 1, other)}, true);
    add("mixed, other core", {on("mixed", 1, other)}, false);
    add("chase, other core", {on("chase", 1, other)}, false);
    add("cache, other core", {on("cache", 1, other)}, false);
    add("bandwidth half the time, other core", {on("bandwidth", 0.5, other)}, false);
    add("mixed on the same, bandwidth on the other",
        {on("mixed", 1, mine), on("bandwidth", 1, other)}, false);
  }
  add("compute, anywhere", {"compute 1 1 any"}, false);
  add("mixed of two threads, anywhere", {"mixed 1 2 any"}, false);
  add("bandwidth and compute, anywhere", {"bandwidth 1 1 any", "compute 1 1 any"}, false);
  add("mixed of three threads, anywhere", {"mixed 1 3 any"}, false);
  // Not strangers but tenants, whose shares sum to more than there is, and to just that.
  for (const double theirs : {0.6, 0.3}) {
    LoadCase both;
    both.label = fmt::format("tenant of {:g} beside a share of 0.8", theirs);
    both.tenant_share = theirs;
    both.share = 0.8;
    cases.push_back(std::move(both));
  }
  return cases;
}

Result<std::vector<latency::LoadRow>> MeasureLoadTable(const std::vector<LoadModel>& models,
                                                       const std::vector<LoadCase>& cases,
                                                       const LoadTableOptions& options) {
  execution::PartitionSpec spec;
  spec.cores = options.cores;
  spec.quota = ShareFromFraction(options.quota);
  HASE_ASSIGN_OR_RETURN(auto partition, execution::Partition::Make(spec));
  Table table(models, options, std::move(partition));
  return table.Run(cases);
}

}  // namespace hase::live

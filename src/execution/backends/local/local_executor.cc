// The pump: one thread that owns every partition and worker. Commands reach it through a list and
// an eventfd; workers through their sockets.
#include "execution/backends/local/local_executor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <list>
#include <mutex>
#include <thread>
#include <variant>

#include "execution/worker/worker.h"

namespace hase::execution {
namespace {

// A run's worker on one of its slots.
struct Part {
  Partition partition;  // before the worker, which lives in it
  std::optional<Worker> worker;
  LocalRecord record;
  std::vector<int64_t> unreported;  // inputs of chunks that other parts have not finished yet
  int64_t left = 0;                 // inputs of this part not done
  bool over = false;
};

struct Run {
  Launch launch;
  std::vector<std::unique_ptr<Part>> parts;  // one per slot
  int loading = 0, running = 0;              // parts that are
  Nanos load_time;
  Bytes peak_load, peak_run;
  std::optional<Nanos> kill_at;  // after a Stop
};

struct StopCommand {
  RunId run;
};
struct QuitCommand {};
using Command = std::variant<Launch, StopCommand, QuitCommand>;

int GpuIndex(const std::string& device_name) {
  const size_t slash = device_name.rfind('/');
  int index = 0;
  if (slash != std::string::npos)
    std::from_chars(device_name.data() + slash + 1, device_name.data() + device_name.size(), index);
  return index;
}

}  // namespace

class LocalExecutor::Pump {
 public:
  Pump(const cluster::Cluster& cluster, std::vector<LocalModel> models, LiveEvents& events,
       LocalOptions options, std::vector<Partition> partitions)
      : cluster_(cluster),
        models_(std::move(models)),
        events_(events),
        options_(options),
        partitions_(std::move(partitions)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { Loop(); }) {}

  ~Pump() {
    Post(QuitCommand{});
    thread_.join();
    close(wake_);
  }

  void Post(Command command) {
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
    }
    const uint64_t one = 1;
    if (write(wake_, &one, sizeof one) < 0) {
      // The counter is full, so the thread is awake already.
    }
  }

  void Begin(const Launch& launch) {
    events_.Expect();
    Post(launch);
  }

  bool Knows(const Launch& launch) const {
    const auto known = [&](const placement::Slot& slot) {
      return slot.device.index() < partitions_.size();
    };
    return launch.model.index() < models_.size() && !launch.slots.empty() &&
           std::ranges::all_of(launch.slots, known);
  }
  const std::vector<Partition>& partitions() const { return partitions_; }
  std::vector<LocalRecord> Records() const {
    const std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  void Loop();
  void Obey(const Command& command);
  void Spawn(const Launch& launch);
  Result<std::unique_ptr<Part>> BeginPart(const Launch& launch, const placement::Slot& slot,
                                          int64_t inputs, int64_t chunk_inputs);
  void Listen(Run& run, Part& part);
  void Heed(Run& run, Part& part, const Message& message);
  void Fail(Run& run, const std::string& why, bool out_of_memory);
  void ReportChunks(Run& run, Nanos busy);
  void Keep(const Part& part);
  Nanos NextDeadline() const;

  const cluster::Cluster& cluster_;
  const std::vector<LocalModel> models_;
  LiveEvents& events_;
  const LocalOptions options_;
  const std::vector<Partition> partitions_;  // by DeviceId
  const int wake_;
  mutable std::mutex mutex_;
  std::vector<Command> commands_;
  std::vector<LocalRecord> records_;
  std::list<Run> runs_;  // of the pump's thread alone
  bool quit_ = false;
  std::thread thread_;  // last: it uses all of the above
};

void LocalExecutor::Pump::Loop() {
  while (!quit_) {
    std::erase_if(runs_, [](const Run& run) { return run.running == 0; });
    std::vector<pollfd> fds = {{.fd = wake_, .events = POLLIN, .revents = 0}};
    std::vector<std::pair<Run*, Part*>> owners = {{nullptr, nullptr}};
    for (Run& run : runs_) {
      for (auto& part : run.parts) {
        if (part->over) continue;
        fds.push_back({.fd = part->worker->fd(), .events = POLLIN, .revents = 0});
        owners.emplace_back(&run, part.get());
      }
    }
    const Nanos left = NextDeadline() - MonotonicNow();
    const int wait_ms =
        runs_.empty() ? -1 : static_cast<int>(std::clamp(ToMillis(left) + 1, 0., 1e6));
    poll(fds.data(), fds.size(), wait_ms);
    // Also those that are silent: Listen looks at their deadline.
    for (size_t i = 1; i < fds.size(); ++i) {
      auto [run, part] = owners[i];
      if (!part->over && (fds[i].revents != 0 || MonotonicNow() >= part->worker->Deadline()))
        Listen(*run, *part);
    }
    for (Run& run : runs_)
      if (run.running > 0 && run.kill_at && MonotonicNow() >= *run.kill_at)
        Fail(run, "stopped", false);
    uint64_t count = 0;
    if (read(wake_, &count, sizeof count) < 0) continue;  // nothing was commanded
    std::vector<Command> commands;
    {
      const std::lock_guard lock(mutex_);
      commands.swap(commands_);
    }
    for (const Command& command : commands) Obey(command);
  }
}

Nanos LocalExecutor::Pump::NextDeadline() const {
  Nanos next = Nanos::Max();
  for (const Run& run : runs_) {
    if (run.kill_at) next = std::min(next, *run.kill_at);
    for (const auto& part : run.parts)
      if (!part->over) next = std::min(next, part->worker->Deadline());
  }
  return next;
}

void LocalExecutor::Pump::Obey(const Command& command) {
  if (const auto* launch = std::get_if<Launch>(&command)) return Spawn(*launch);
  if (std::holds_alternative<QuitCommand>(command)) {
    quit_ = true;
    return;
  }
  const RunId id = std::get<StopCommand>(command).run;
  const auto run = std::ranges::find(runs_, id, [](const Run& r) { return r.launch.run; });
  if (run == runs_.end() || run->kill_at) return;  // it ended, or was told before
  run->kill_at = MonotonicNow() + options_.stop_grace;
  // A worker that is gone says so itself.
  for (auto& part : run->parts)
    if (!part->over) static_cast<void>(part->worker->Send(StopRequest{}));
}

void LocalExecutor::Pump::Spawn(const Launch& launch) {
  Run& run = runs_.emplace_back();
  run.launch = launch;
  const auto count = static_cast<int64_t>(launch.slots.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t inputs = launch.inputs * (i + 1) / count - launch.inputs * i / count;
    const int64_t chunk = std::max<int64_t>(1, launch.chunk_inputs / count);
    auto part = BeginPart(launch, launch.slots[static_cast<size_t>(i)], inputs,
                          launch.chunk_inputs > 0 ? chunk : inputs);
    if (!part) {
      run.running = std::max(run.running, 1);
      return Fail(run, part.error().message, false);
    }
    run.parts.push_back(std::move(*part));
    ++run.loading;
    ++run.running;
  }
}

Result<std::unique_ptr<Part>> LocalExecutor::Pump::BeginPart(const Launch& launch,
                                                             const placement::Slot& slot,
                                                             int64_t inputs, int64_t chunk_inputs) {
  const cluster::Device& device = cluster_.devices[slot.device.index()];
  const LocalModel& model = models_[launch.model.index()];
  const Bytes slack =
      std::max(options_.memory_slack_least, Scale(launch.memory_limit, options_.memory_slack));
  const Bytes limit = launch.memory_limit > Bytes(0) ? launch.memory_limit + slack : Bytes(0);
  HASE_ASSIGN_OR_RETURN(Partition partition,
                        partitions_[slot.device.index()].Divide(slot.share, limit));
  auto part = std::make_unique<Part>();
  part->partition = std::move(partition);
  LoadRequest load;
  load.model = model.path;
  load.dimensions = model.dimensions;
  load.batch = launch.batch;
  load.memory_limit = limit;
  load.time_limit_s = options_.load_limit_s;
  if (cluster_.types[device.type.index()].runtime == model::Runtime::kOrtCuda) {
    load.provider = model::ort::Provider::kCuda;
    load.cuda_device = GpuIndex(device.name);
  }
  HASE_ASSIGN_OR_RETURN(Worker worker, Worker::Spawn(part->partition, load));
  part->worker.emplace(std::move(worker));
  HASE_RETURN_IF_ERROR(part->worker->Send(
      RunRequest{.inputs = inputs, .chunk_inputs = chunk_inputs, .then_exit = true}));
  part->left = inputs;
  part->record.run = launch.run;
  part->record.device = slot.device;
  part->record.model = launch.model;
  part->record.batch = launch.batch;
  part->record.share = slot.share;
  part->record.pid = part->worker->pid();
  return part;
}

void LocalExecutor::Pump::Listen(Run& run, Part& part) {
  while (!part.over) {
    const auto message = part.worker->Receive(kNoTime);
    if (!message) return;
    Heed(run, part, *message);
  }
}

void LocalExecutor::Pump::Heed(Run& run, Part& part, const Message& message) {
  const RunId id = run.launch.run;
  if (const auto* loaded = std::get_if<Loaded>(&message)) {
    part.record.loaded = *loaded;
    run.load_time = std::max(run.load_time, loaded->load);
    run.peak_load += loaded->peak;
    if (--run.loading == 0)
      events_.Post(RunLoaded{.run = id, .load_time = run.load_time, .peak_memory = run.peak_load});
  } else if (const auto* chunk = std::get_if<Chunk>(&message)) {
    part.record.chunks.push_back(*chunk);
    part.unreported.push_back(chunk->inputs);
    part.left -= chunk->inputs;
    ReportChunks(run, chunk->busy);
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    Fail(run, run.kill_at ? "stopped" : failure->why, failure->out_of_memory);
  } else if (const auto* done = std::get_if<Done>(&message)) {
    part.over = true;
    part.worker->End(FromMillis(500));
    part.record.peak_run = done->peak;
    run.peak_run += done->peak;
    Keep(part);
    if (--run.running > 0) return;
    int64_t inputs = 0;
    for (const auto& p : run.parts)
      for (const Chunk& c : p->record.chunks) inputs += c.inputs;
    if (inputs < run.launch.inputs) {
      events_.Post(RunFailed{.run = id, .why = "stopped"});
    } else {
      events_.Post(RunFinished{.run = id, .peak_memory = std::max(run.peak_load, run.peak_run)});
    }
  }
}

// A chunk of the whole is done when every part that has inputs left has done its piece of it.
void LocalExecutor::Pump::ReportChunks(Run& run, Nanos busy) {
  for (;;) {
    int64_t inputs = 0;
    for (const auto& part : run.parts) {
      if (!part->unreported.empty()) {
        inputs += part->unreported.front();
      } else if (part->left > 0) {
        return;
      }
    }
    if (inputs == 0) return;
    for (auto& part : run.parts)
      if (!part->unreported.empty()) part->unreported.erase(part->unreported.begin());
    events_.Post(ChunkDone{.run = run.launch.run, .inputs = inputs, .busy = busy});
  }
}

void LocalExecutor::Pump::Fail(Run& run, const std::string& why, bool out_of_memory) {
  for (auto& part : run.parts) {
    if (part->over) continue;
    part->over = true;
    part->worker->End();
    Keep(*part);
  }
  run.running = 0;
  events_.Post(RunFailed{.run = run.launch.run, .why = why, .out_of_memory = out_of_memory});
}

void LocalExecutor::Pump::Keep(const Part& part) {
  const std::lock_guard lock(mutex_);
  records_.push_back(part.record);
}

LocalExecutor::LocalExecutor(std::unique_ptr<Pump> pump) : pump_(std::move(pump)) {}
LocalExecutor::~LocalExecutor() = default;

Result<std::unique_ptr<LocalExecutor>> LocalExecutor::Make(const cluster::Cluster& cluster,
                                                           std::vector<LocalModel> models,
                                                           LiveEvents& events,
                                                           LocalOptions options) {
  std::vector<Partition> partitions;
  for (const cluster::Device& device : cluster.devices) {
    const cluster::DeviceType& type = cluster.types[device.type.index()];
    PartitionSpec spec;
    spec.without_cgroups = options.without_cgroups;
    if (type.runtime == model::Runtime::kOrtCpu) {
      spec.cores = device.cpu_cores;
      spec.quota = type.quota;
    } else if (type.runtime == model::Runtime::kOrtCuda) {
      HASE_RETURN_IF_ERROR(model::ort::ProviderUsable(model::ort::Provider::kCuda));
    } else {
      return Infeasible(fmt::format("device {}: runtime {} cannot be run on this machine",
                                    device.name, model::ToString(type.runtime)));
    }
    auto partition = Partition::Make(spec);
    if (!partition)
      return Invalid(fmt::format("device {}: {}", device.name, partition.error().message));
    partitions.push_back(std::move(*partition));
  }
  return std::unique_ptr<LocalExecutor>(new LocalExecutor(
      std::make_unique<Pump>(cluster, std::move(models), events, options, std::move(partitions))));
}

Status LocalExecutor::Start(const Launch& launch) {
  if (!pump_->Knows(launch)) return Invalid("a start names a device or model that is not here");
  if (launch.inputs < 1 || launch.batch < 1)
    return Invalid(fmt::format("a start of {} inputs at batch {}", launch.inputs, launch.batch));
  pump_->Begin(launch);
  return {};
}

void LocalExecutor::Stop(RunId run) { pump_->Post(StopCommand{run}); }

std::vector<std::string> LocalExecutor::Enforcement() const {
  std::vector<std::string> lines;
  for (const Partition& partition : pump_->partitions()) lines.push_back(partition.Describe());
  return lines;
}

std::vector<Limiter> LocalExecutor::Limiters() const {
  std::vector<Limiter> limiters;
  for (const Partition& partition : pump_->partitions()) limiters.push_back(partition.limiter());
  return limiters;
}

std::vector<LocalRecord> LocalExecutor::Records() const { return pump_->Records(); }

}  // namespace hase::execution

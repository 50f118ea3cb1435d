#include "tenants.h"

#include <fmt/core.h>
#include <poll.h>

#include "apps/live/setting.h"
#include "cluster/detect.h"

namespace hase::bench {

using execution::Limiter;
using execution::Worker;

Result<std::unique_ptr<Tenants>> Tenants::Start(const std::vector<TenantSpec>& specs,
                                                const std::string& state) {
  HASE_ASSIGN_OR_RETURN(auto all, execution::Partition::Make({}));
  std::unique_ptr<Tenants> tenants(new Tenants(std::move(all)));
  tenants->specs_ = specs;
  tenants->parts_.reserve(specs.size());  // workers point at them
  for (const TenantSpec& spec : specs) {
    HASE_ASSIGN_OR_RETURN(auto part, tenants->all_.Divide(ShareFromFraction(spec.share), Bytes(0)));
    if (part.limiter() == Limiter::kDutyCycle)
      return Unavailable("shares need control groups that this user may write");
    tenants->parts_.push_back(std::move(part));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    HASE_ASSIGN_OR_RETURN(const auto file, live::ModelFile(specs[i].model, state));
    execution::LoadRequest load;
    load.model = file.string();
    load.batch = specs[i].batch;
    load.warm_up = 3;
    HASE_ASSIGN_OR_RETURN(auto worker, Worker::Spawn(tenants->parts_[i], load));
    tenants->workers_.push_back(std::move(worker));
    // One after the other: what loads at once disturbs nobody's time, but takes memory twice.
    const auto message = tenants->workers_.back().Receive(FromSeconds(300));
    const auto* loaded = message ? std::get_if<execution::Loaded>(&*message) : nullptr;
    if (loaded == nullptr) {
      const auto* failure = message ? std::get_if<execution::Failure>(&*message) : nullptr;
      return Unavailable(
          fmt::format("{} did not load: {}", specs[i].model, failure ? failure->why : "no answer"));
    }
    tenants->loaded_.push_back(*loaded);
  }
  return tenants;
}

Status Tenants::Run(size_t i, int64_t batches) {
  execution::RunRequest run;
  run.inputs = batches * specs_[i].batch;
  run.chunk_inputs = specs_[i].batch;
  return workers_[i].Send(run);
}

Result<std::optional<Tenants::Finished>> Tenants::Next(double timeout_s) {
  const Nanos until = execution::MonotonicNow() + FromSeconds(timeout_s);
  while (true) {
    std::vector<pollfd> fds;
    for (const Worker& w : workers_) fds.push_back({w.fd(), POLLIN, 0});
    const Nanos left = until - execution::MonotonicNow();
    const timespec wait{left.value() > 0 ? left.value() / 1'000'000'000 : 0,
                        left.value() > 0 ? left.value() % 1'000'000'000 : 0};
    if (ppoll(fds.data(), fds.size(), &wait, nullptr) <= 0) return std::optional<Finished>();
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      const auto message = workers_[i].Receive(Nanos(0));
      if (!message) continue;
      if (const auto* chunk = std::get_if<execution::Chunk>(&*message))
        return std::optional(Finished{i, ToSeconds(chunk->busy)});
      if (const auto* failure = std::get_if<execution::Failure>(&*message))
        return Unavailable(fmt::format("{}: {}", specs_[i].model, failure->why));
    }
  }
}

std::string Fingerprint() {
  const auto cpu = cluster::DetectCpu();
  return fmt::format("{}; {} cores; {} MiB cache; {}", cpu.model, cpu.cores.size(),
                     cpu.last_level_cache.value() >> 20,
                     cpu.avx512 ? "AVX-512"
                     : cpu.avx2 ? "AVX2"
                                : "no AVX2");
}

}  // namespace hase::bench

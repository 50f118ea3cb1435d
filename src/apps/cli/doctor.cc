// hase doctor: what HASE finds on this machine, and what to do about what it does not find.
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>

#include "apps/cli/commands.h"
#include "apps/cli/machine.h"
#include "base/paths.h"
#include "cluster/nvml.h"
#include "model/library.h"
#include "model/ort/session.h"

namespace hase::cli {
namespace {

namespace ort = model::ort;

enum class Verdict { kOk, kWarn, kFail };
constexpr std::string_view kVerdicts[] = {"ok", "warn", "fail"};

struct Check {
  std::string name;
  Verdict verdict;
  std::string found;
  std::string advice = {};  // empty where all is well
};

Check Runtime() {
  return {"onnxruntime", Verdict::kOk,
          fmt::format("version {}, CPU provider", ort::RuntimeVersion())};
}

Check Cuda() {
  if (const auto usable = ort::ProviderUsable(ort::Provider::kCuda); !usable) {
    return {"cuda provider", Verdict::kWarn, "not usable: jobs run on CPU partitions",
            usable.error().message};
  }
  return {"cuda provider", Verdict::kOk, "usable"};
}

Check Driver() {
  const auto nvml = cluster::Nvml::Open();
  if (!nvml) return {"nvml", Verdict::kWarn, "no GPU seen", nvml.error().message};
  const auto cards = nvml->Cards();
  if (!cards)
    return {"nvml", Verdict::kFail, "driver present, cards not readable", cards.error().message};
  std::string names;
  for (const auto& card : *cards) names += (names.empty() ? "" : ", ") + card.name;
  return {"nvml", Verdict::kOk,
          fmt::format("driver {}: {}", nvml->DriverVersion(), names.empty() ? "no card" : names)};
}

Check Cores(const Machine& machine) {
  const auto& cpu = machine.cpu;
  std::string found = fmt::format("{} usable ({})", cpu.cores.size(), cpu.model);
  if (cpu.cpu_limit > 0)
    found += fmt::format(", {} grants {:.2f}", cpu.cpu_limit_source, cpu.cpu_limit);
  if (cpu.cpu_limit > 0 && cpu.cpu_limit < static_cast<double>(cpu.cores.size())) {
    return {"cores", Verdict::kWarn, found,
            "a quota around HASE throttles all its devices; raise it, or give HASE a cpuset"};
  }
  if (cpu.cores.size() < 2) {
    return {"cores", Verdict::kWarn, found,
            "one core: the devices share it, and demo has only two"};
  }
  return {"cores", Verdict::kOk, found};
}

Check Groups(const Machine& machine) {
  const auto half =
      execution::Partition::Make({.cores = {machine.cpu.cores.front()}, .quota = MilliShare(500)});
  if (!half) return {"cgroup", Verdict::kFail, "no partition can be made", half.error().message};
  if (half->limiter() == execution::Limiter::kDutyCycle) {
    return {"cgroup", Verdict::kWarn, "not writable: quotas are kept by pauses in the worker",
            "run as root, or delegate the cpu controller to this user (systemd: Delegate=cpu)"};
  }
  return {"cgroup", Verdict::kOk,
          fmt::format("quotas by {}", execution::ToString(half->limiter()))};
}

Check Perf() {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_CACHE_MISSES;
  const long fd = syscall(SYS_perf_event_open, &attributes, -1, 0, -1, 0);
  if (fd < 0) {
    return {"perf counters", Verdict::kWarn,
            fmt::format("not available ({}): memory traffic of strangers is not seen",
                        std::strerror(errno)),
            errno == EACCES || errno == EPERM
                ? "set kernel.perf_event_paranoid to 0 or run as root"
                : "a virtual machine without a performance monitoring unit has none"};
  }
  close(static_cast<int>(fd));
  return {"perf counters", Verdict::kOk, "cache misses of each core can be counted"};
}

Check ShippedFiles() {
  const auto data = DataDir();
  if (!data) return {"data", Verdict::kFail, "no data folder", data.error().message};
  const auto zoo = model::ZooNames(*data);
  std::string found = fmt::format("{}: catalogue, {} zoo models", data->string(), zoo.size());
  if (zoo.empty()) {
    return {"data", Verdict::kWarn, found,
            "no zoo kernel lists: take data/zoo from the repository"};
  }
  return {"data", Verdict::kOk, found};
}

Check Samples(const latency::SampleStore& store) {
  const auto whole = store.Check();
  const auto count = store.Count({});
  const auto unusable = store.CountUnusable();
  for (const Error* error : {whole ? nullptr : &whole.error(), count ? nullptr : &count.error(),
                             unusable ? nullptr : &unusable.error()}) {
    if (error) return {"samples", Verdict::kFail, "samples.db cannot be used", error->message};
  }
  const std::string found = fmt::format("{} samples of this machine", *count);
  if (*unusable == 0) return {"samples", Verdict::kOk, found};
  return {"samples", Verdict::kWarn,
          fmt::format("{}, {} without a latency above 0", found, *unusable),
          "those do not count; measure or import them again"};
}

std::vector<Check> State(const std::string& flag, const Machine& machine) {
  std::vector<Check> checks;
  const auto dir = StateDir(flag);
  if (!dir) return {{"state", Verdict::kFail, "no state folder", dir.error().message}};
  checks.push_back({"state", Verdict::kOk, fmt::format("{} is writable", dir->string())});
  const auto store = OpenSamples(flag, machine);
  if (!store) {
    checks.push_back(
        {"samples", Verdict::kFail, "samples.db cannot be used", store.error().message});
    return checks;
  }
  checks.push_back(Samples(*store));
  if (checks.back().verdict == Verdict::kFail) return checks;
  // A clock unlike the one while measuring makes every measured time wrong by as much.
  const int now = CoreClockMhz(machine.cpu.cores.front());
  for (const auto& type : machine.cluster.types) {
    const auto bench = store->Bench(type.name);
    if (!bench || !*bench) {
      if (type.spec.kind == cluster::DeviceKind::kCpu) {
        checks.push_back({"bench", Verdict::kWarn, fmt::format("{} was never measured", type.name),
                          "run hase bench"});
      }
      continue;
    }
    const int then = (*bench)->sm_clock_mhz;
    const bool off = now > 0 && then > 0 && std::abs(now - then) > then / 20;
    checks.push_back(
        {"bench", off ? Verdict::kWarn : Verdict::kOk,
         fmt::format("{} measured {} at {} MHz{}", type.name, (*bench)->date, then,
                     off ? fmt::format(", now {} MHz", now) : ""),
         off ? "fix the clock, or run hase bench --force and hase profile --force" : ""});
  }
  return checks;
}

int Report(const std::vector<Check>& checks, bool json) {
  bool failed = false;
  auto list = nlohmann::ordered_json::array();
  for (const auto& check : checks) {
    const auto verdict = kVerdicts[static_cast<size_t>(check.verdict)];
    failed = failed || check.verdict == Verdict::kFail;
    list.push_back({{"check", check.name},
                    {"status", verdict},
                    {"found", check.found},
                    {"advice", check.advice}});
    if (json) continue;
    fmt::print("{:<5} {:<14} {}\n", verdict, check.name, check.found);
    if (!check.advice.empty()) fmt::print("{:<20} → {}\n", "", check.advice);
  }
  if (json) fmt::print("{}\n", nlohmann::ordered_json{{"ok", !failed}, {"checks", list}}.dump(2));
  return failed ? 1 : 0;
}

}  // namespace

Action SetUpDoctor(CLI::App& command) {
  struct Flags {
    std::string state;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("--state", flags->state, "State folder");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> {
    std::vector<Check> checks = {ShippedFiles()};
    const auto machine = OpenMachine("");
    if (!machine) {
      checks.push_back({"machine", Verdict::kFail, "not described", machine.error().message});
      return Report(checks, flags->json);
    }
    for (Check check : {Runtime(), Cuda(), Driver(), Cores(*machine), Groups(*machine), Perf()}) {
      checks.push_back(std::move(check));
    }
    for (Check& check : State(flags->state, *machine)) checks.push_back(std::move(check));
    return Report(checks, flags->json);
  };
}

}  // namespace hase::cli

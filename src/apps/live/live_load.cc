#include "apps/live/live_load.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "cluster/telemetry/cpu.h"

namespace hase::live {
namespace {

Result<latency::QuietProbe> ReadQuiet(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return latency::QuietProbe{};
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(file));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  latency::QuietProbe quiet;
  for (const auto& [key, value] : {std::pair{"compute_ns", &quiet.compute_ns},
                                   {"stream_ns", &quiet.stream_ns},
                                   {"latency_ns", &quiet.latency_ns}}) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number()) {
      return Invalid(
          fmt::format("{}: no number {}; delete the file to start anew", file.string(), key));
    }
    *value = json[key].get<double>();
  }
  return quiet;
}

Status WriteQuiet(const std::filesystem::path& file, const latency::QuietProbe& quiet) {
  return WriteFileAtomically(file, nlohmann::ordered_json{{"compute_ns", quiet.compute_ns},
                                                          {"stream_ns", quiet.stream_ns},
                                                          {"latency_ns", quiet.latency_ns}}
                                           .dump() +
                                       "\n");
}

}  // namespace

Result<LiveLoad> LiveLoad::Take(const std::filesystem::path& state, const std::vector<int>& cores,
                                double interval_s) {
  LiveLoad load;
  const auto file = state / "probe.json";
  HASE_ASSIGN_OR_RETURN(const auto before, ReadQuiet(file));
  cluster::telemetry::CpuOptions options;
  options.probe_cores = cores;
  const auto source = cluster::telemetry::MakeCpu(options);
  HASE_RETURN_IF_ERROR(source->Poll());
  std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
  HASE_ASSIGN_OR_RETURN(load.snapshot_, source->Poll());
  load.quiet_ = latency::QuietestOf(load.snapshot_, before);
  HASE_RETURN_IF_ERROR(WriteQuiet(file, load.quiet_));
  return load;
}

latency::ForeignLoad LiveLoad::Of(const std::vector<int>& cores) const {
  return latency::CpuForeignLoad(snapshot_, cores, quiet_);
}

}  // namespace hase::live

#include "latency/cpu_load.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace hase::latency {
namespace {

using cluster::telemetry::Counter;
using cluster::telemetry::Snapshot;
using cluster::telemetry::Stranger;

// Part of a parallel job that waits for its slowest core. Assumed, not fitted.
constexpr double kStraggling = 0.5;
constexpr double kTie = 0.02;
constexpr int kMostCores = 4096;
constexpr double kClockWanders = 0.25;

// One thread's share of its group's weight: threads of a group divide it by how much they run.
std::vector<double> Weights(const std::vector<Stranger>& strangers) {
  std::map<std::string, double> runnable;
  for (const auto& s : strangers) runnable[s.group] += s.runnable();
  std::vector<double> weights;
  for (const auto& s : strangers) {
    const double all = s.group.empty() ? 0 : runnable[s.group];
    weights.push_back(all > 0 ? s.runnable() / all : 1);
  }
  return weights;
}

std::vector<int> Allowed(const Stranger& stranger, int machine) {
  std::vector<int> allowed;
  for (const int core : stranger.cores) {
    if (core >= 0 && core < machine) allowed.push_back(core);
  }
  if (!allowed.empty()) return allowed;
  allowed.resize(static_cast<size_t>(machine));
  std::iota(allowed.begin(), allowed.end(), 0);
  return allowed;
}

}  // namespace

QuietProbe QuietestOf(const Snapshot& snapshot, const QuietProbe& before) {
  QuietProbe quiet = before;
  const auto take = [](double& least, const cluster::telemetry::Reading& reading) {
    if (reading.ok() && reading.value > 0 && (least <= 0 || reading.value < least)) {
      least = reading.value;
    }
  };
  for (const auto& device : snapshot.devices) {
    take(quiet.compute_ns, device.at(Counter::kProbeCompute));
    take(quiet.stream_ns, device.at(Counter::kProbeStream));
    take(quiet.latency_ns, device.at(Counter::kProbeLatency));
  }
  return quiet;
}

std::vector<double> Competition(const std::vector<Stranger>& strangers,
                                const std::vector<int>& cores, int machine) {
  machine = std::max(machine, 1);
  const auto mine = [&](int core) { return std::ranges::find(cores, core) != cores.end(); };
  const double own = 1 / static_cast<double>(std::max<size_t>(cores.size(), 1));
  std::vector<double> load(static_cast<size_t>(machine), 0);
  for (const int core : cores) {
    if (core >= 0 && core < machine) load[static_cast<size_t>(core)] += own;
  }
  const auto weights = Weights(strangers);
  // Per core and group: how much of the time it wants the core, and the weight it brings.
  struct Claim {
    double runnable = 0, weight = 0;
  };
  std::vector<std::map<std::string, Claim>> claims(static_cast<size_t>(machine));
  std::vector<double> alone(static_cast<size_t>(machine), 0);
  const auto put = [&](size_t i, int core, double part) {
    const auto c = static_cast<size_t>(core);
    const Stranger& s = strangers[i];
    load[c] += part * s.runnable() * weights[i];
    if (s.group.empty()) {
      alone[c] += part * s.runnable();
    } else {
      Claim& claim = claims[c][s.group];
      claim.runnable += part * s.runnable();
      claim.weight += part * weights[i];
    }
  };
  std::vector<size_t> floating;
  for (size_t i = 0; i < strangers.size(); ++i) {
    const auto allowed = Allowed(strangers[i], machine);
    if (allowed.size() == 1) {
      put(i, allowed.front(), 1);
    } else {
      floating.push_back(i);
    }
  }
  std::ranges::stable_sort(floating, [&](size_t a, size_t b) {
    return strangers[a].runnable() * weights[a] > strangers[b].runnable() * weights[b];
  });
  for (const size_t i : floating) {
    const auto allowed = Allowed(strangers[i], machine);
    double least = 1e300;
    for (const int core : allowed) least = std::min(least, load[static_cast<size_t>(core)]);
    std::vector<int> best;
    for (const int core : allowed) {
      if (load[static_cast<size_t>(core)] <= least + kTie) best.push_back(core);
    }
    // Cores alike on either side of the job's edge: it may be on each. Within, one is as another.
    const bool edge = mine(best.front()) != mine(best.back());
    if (!edge) best.resize(1);
    for (const int core : best) put(i, core, 1 / static_cast<double>(best.size()));
  }
  std::vector<double> competition;
  for (const int core : cores) {
    if (core < 0 || core >= machine) continue;
    double sum = alone[static_cast<size_t>(core)] / own;
    for (const auto& [group, claim] : claims[static_cast<size_t>(core)]) {
      sum += std::min(1.0, claim.runnable) * claim.weight / own;
    }
    competition.push_back(sum);
  }
  return competition;
}

ForeignLoad CpuForeignLoad(const Snapshot& snapshot, const std::vector<int>& cores,
                           const QuietProbe& quiet) {
  ForeignLoad load;
  if (snapshot.interval_s <= 0 || snapshot.devices.empty()) return load;
  int machine = 0;
  for (const auto& device : snapshot.devices) {
    if (device.index < 0 || device.index >= kMostCores) return load;  // no machine of ours
    machine = std::max(machine, device.index + 1);
  }
  const auto competition = Competition(snapshot.strangers, cores, machine);
  if (competition.empty()) return load;
  load.valid = true;
  double speeds = 0, slowest = 1;
  for (const double c : competition) {
    speeds += 1 / (1 + c);
    slowest = std::min(slowest, 1 / (1 + c));
  }
  const double n = static_cast<double>(competition.size());
  load.sm = (1 - kStraggling) * n / speeds + kStraggling / slowest - 1;
  double compute = 0, stream = 0;
  int probed = 0;
  for (const auto& device : snapshot.devices) {
    if (std::ranges::find(cores, device.index) == cores.end()) continue;
    load.age_s = std::max(load.age_s, device.at(Counter::kSmActive).age_s);
    const auto& c = device.at(Counter::kProbeCompute);
    const auto& s = device.at(Counter::kProbeStream);
    if (!c.ok() || !s.ok()) continue;
    ++probed;
    compute += c.value;
    stream += s.value;
  }
  if (probed == 0 || quiet.compute_ns <= 0 || quiet.stream_ns <= 0) return load;
  const auto stretch = [&](double sum, double rest) {
    return std::max(0.0, sum / probed / rest - 1);
  };
  load.compute_stretch = std::max(0.0, stretch(compute, quiet.compute_ns) - kClockWanders);
  load.stream_stretch = stretch(stream, quiet.stream_ns);
  return load;
}

}  // namespace hase::latency

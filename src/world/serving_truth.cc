#include "world/serving_truth.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/yaml.h"

namespace hase::world {
namespace {

using cluster::ShareMode;

double Logs(Rng rng, double sigma) { return std::exp(sigma * rng.Normal()); }

// How a MIG instance is cut: (compute sevenths, memory eighths).
std::pair<double, double> MigCut(MilliShare share) {
  const int sevenths = static_cast<int>(std::lround(ToFraction(share) * 7));
  const double memory = sevenths <= 1 ? 1 : sevenths == 2 ? 2 : sevenths <= 4 ? 4 : 8;
  return {std::max(1, sevenths) / 7.0, memory / 8};
}

// Max-min: each asks for at most demand[i] of a total of 1; nobody gets more than it asks, and the
// rest is split evenly.
void WaterFill(std::span<const double> demand, std::span<double> grant) {
  std::vector<size_t> open(demand.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  std::sort(open.begin(), open.end(), [&](size_t a, size_t b) {
    return demand[a] != demand[b] ? demand[a] < demand[b] : a < b;
  });
  double left = 1;
  for (size_t k = 0; k < open.size(); ++k) {
    const double fair = left / static_cast<double>(open.size() - k);
    grant[open[k]] = std::min(demand[open[k]], fair);
    left -= grant[open[k]];
  }
}

}  // namespace

Result<ServingLawParameters> ReadServingLaw(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Load(path));
  ServingLawParameters p;
  const std::pair<std::string_view, double*> fields[] = {
      {"model_sigma", &p.model_sigma},
      {"part_sigma", &p.part_sigma},
      {"card_sigma", &p.card_sigma},
      {"noise_sigma", &p.noise_sigma},
      {"hiccup_probability", &p.hiccup_probability},
      {"hiccup_factor", &p.hiccup_factor},
      {"bandwidth_sms", &p.bandwidth_sms},
      {"compute_exponent", &p.compute_exponent},
      {"overlap_low", &p.overlap_low},
      {"overlap_high", &p.overlap_high},
      {"device_overlap", &p.device_overlap},
      {"l2_gain", &p.l2_gain},
      {"host_gain", &p.host_gain},
      {"power_knee", &p.power_knee},
      {"power_slope", &p.power_slope},
      {"switch_cost", &p.switch_cost}};
  std::vector<std::string_view> known;
  for (const auto& [name, value] : fields) known.push_back(name);
  HASE_RETURN_IF_ERROR(root.CheckKeys(known));
  for (const auto& [name, value] : fields) {
    HASE_ASSIGN_OR_RETURN(*value, root.NumberOr(name, *value));
    if (*value < 0)
      return Invalid(fmt::format("{}: {} is negative; give 0 or more", root.Where(), name));
  }
  return p;
}

LawTruth::LawTruth(const cluster::Cluster& cluster, WorkTable table,
                   ServingLawParameters parameters, uint64_t seed)
    : cluster_(cluster),
      table_(std::move(table)),
      p_(parameters),
      rng_(Rng(seed).Split("serving")) {}

LawTruth::Demand LawTruth::DemandOf(ModelId model, DeviceId device, int64_t items) const {
  const uint64_t key = (uint64_t{model.index()} << 40) | (uint64_t{device.index()} << 16) |
                       static_cast<uint64_t>(items);
  if (const auto found = demands_.find(key); found != demands_.end()) return found->second;
  const DeviceTypeId type = cluster_.devices[device.index()].type;
  const BatchWork work = table_(model, type, items);
  const auto draw = [&](std::string_view what, uint32_t a, uint32_t b) {
    return rng_.Split(fmt::format("{} {} {}", what, a, b));
  };
  const uint32_t m = model.index(), t = type.index();
  Demand d;
  d.compute_s = work.latency_s * work.compute_part * Logs(draw("compute", m, t), p_.part_sigma);
  d.dram_s = work.latency_s * work.dram_part * Logs(draw("dram", m, t), p_.part_sigma);
  d.host_s = work.latency_s * work.host_part * Logs(draw("host", m, t), p_.part_sigma);
  d.parallelism = work.parallelism;
  d.overlap = draw("overlap", m, 0).Uniform(p_.overlap_low, p_.overlap_high);
  d.scale = 1;
  // Alone on the whole device the batch takes what the table says, times this world's draws.
  const Server whole{model, device, kWholeDevice, ShareMode::kExclusive, items, 0};
  const Server* one = &whole;
  double seconds = 0;
  demands_[key] = d;
  Seconds({&one, 1}, {&items, 1}, {&seconds, 1});
  const double wanted = work.latency_s * Logs(draw("model", m, t), p_.model_sigma) *
                        Logs(draw("card", device.index(), 0), p_.card_sigma);
  d.scale = seconds > 0 ? wanted / seconds : 1;
  demands_[key] = d;
  return d;
}

void LawTruth::Seconds(std::span<const Server* const> busy, std::span<const int64_t> items,
                       std::span<double> out) const {
  const size_t n = busy.size();
  std::vector<Demand> demand(n);
  std::vector<double> sms(n), cap(n), wanted(n), granted(n), compute(n), dram(n);
  double used = 0;
  for (size_t i = 0; i < n; ++i) {
    const Server& s = *busy[i];
    demand[i] = DemandOf(s.model, s.device, items[i]);
    int siblings = 0;
    for (size_t j = 0; j < n; ++j) siblings += busy[j]->slot == s.slot;
    const bool sliced = s.mode == ShareMode::kTimeSlice;
    const double share = s.mode == ShareMode::kMig   ? MigCut(s.share).first
                         : s.mode == ShareMode::kMps ? ToFraction(s.share)
                                                     : 1;
    // Siblings take what compute the others of the slot leave: an even split of the SMs.
    sms[i] = sliced ? 1 : share / siblings;
    used += std::min(sms[i], demand[i].parallelism);
  }
  const double clock = 1 - p_.power_slope * std::max(0.0, std::min(used, 1.0) - p_.power_knee);
  for (size_t i = 0; i < n; ++i) {
    const Server& s = *busy[i];
    const bool mig = s.mode == ShareMode::kMig;
    compute[i] = demand[i].compute_s / clock *
                 std::pow(std::max(1.0, demand[i].parallelism / sms[i]), p_.compute_exponent);
    dram[i] = demand[i].dram_s;
    cap[i] = mig ? MigCut(s.share).second : std::min(1.0, sms[i] / p_.bandwidth_sms);
    const double paced = std::max({compute[i], dram[i] / cap[i], 1e-12});
    wanted[i] = std::min(cap[i], dram[i] / paced);
    granted[i] = wanted[i];
  }
  const bool time_sliced = n > 0 && busy[0]->mode == ShareMode::kTimeSlice;
  if (!time_sliced && n > 1) WaterFill(wanted, granted);
  for (size_t i = 0; i < n; ++i) {
    // Contended, the traffic takes as long as the grant lets it; else it moves at its cap.
    const double moved =
        granted[i] < wanted[i] * (1 - 1e-9) ? dram[i] / granted[i] : dram[i] / cap[i];
    // Neighbours' traffic evicts what this one keeps in L2: it stalls in every phase.
    double traffic = 0;
    if (busy[i]->mode == ShareMode::kMps)
      for (size_t j = 0; j < n; ++j) traffic += j != i ? wanted[j] : 0;
    double device = std::max(compute[i], moved) +
                    (1 - p_.device_overlap) * std::min(compute[i], dram[i] / cap[i]);
    device *= 1 + p_.l2_gain * traffic;
    const double host = demand[i].host_s * (1 + p_.host_gain * static_cast<double>(n - 1));
    double seconds = std::max(device, host) + (1 - demand[i].overlap) * std::min(device, host);
    if (busy[i]->mode == ShareMode::kCpuQuota)
      seconds /= std::max(1e-3, ToFraction(busy[i]->share));
    if (time_sliced && n > 1) seconds *= static_cast<double>(n) * (1 + p_.switch_cost);
    out[i] = seconds * demand[i].scale;
  }
}

double LawTruth::BatchSeconds(const Server& server, int64_t items) const {
  const Server* one = &server;
  double seconds = 0;
  Seconds({&one, 1}, {&items, 1}, {&seconds, 1});
  return seconds;
}

void LawTruth::Ratios(std::span<const Server* const> busy, std::span<double> ratios) const {
  HASE_CHECK(busy.size() == ratios.size());
  std::vector<int64_t> items;
  for (const Server* s : busy) items.push_back(s->batch);
  Seconds(busy, items, ratios);
  for (size_t i = 0; i < busy.size(); ++i)
    ratios[i] = std::max(1.0, ratios[i] / BatchSeconds(*busy[i], items[i]));
}

double LawTruth::Noise(Rng& rng) const {
  const double noise = std::exp(p_.noise_sigma * rng.Normal());
  return rng.Uniform() < p_.hiccup_probability ? noise * p_.hiccup_factor : noise;
}

double LawTruth::LoadSeconds(const Server& server) const {
  return table_(server.model, cluster_.devices[server.device.index()].type, server.batch).load_s;
}

Bytes LawTruth::Memory(const Server& server) const {
  return table_(server.model, cluster_.devices[server.device.index()].type, server.batch).memory;
}

double LawTruth::DramActive(const Server& server, int64_t items) const {
  const Demand d = DemandOf(server.model, server.device, items);
  return std::min(1.0, d.dram_s * d.scale / std::max(1e-12, BatchSeconds(server, items)));
}

Bytes LawTruth::DeviceMemory(DeviceId device) const {
  // What the driver keeps for itself.
  constexpr double kUsable = 0.96;
  const auto& spec = cluster_.types[cluster_.devices[device.index()].type.index()].spec;
  return spec.memory.value() > 0 ? Scale(spec.memory, kUsable) : Bytes::Max();
}

}  // namespace hase::world

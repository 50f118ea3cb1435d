#include "world/residual_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/csv.h"
#include "base/rng.h"

namespace hase::world {
namespace {

constexpr double kRunSigma = 0.02;       // repeats of one measurement differ by 1-3 %
constexpr double kSlowdownSigma = 0.25;  // log, of a slow-down's excess over 1
constexpr double kLoadSigma = 0.15;      // log, of load times

uint64_t Mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
}

}  // namespace

Result<std::vector<ResidualBlock>> ParseResiduals(const std::string& name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(
      const CsvTable t,
      CsvTable::Parse(name, text, {"dataset", "device", "model", "op_class", "log_error"},
                      {"dataset", "device", "log_error"}));
  struct Sum {
    double n = 0, sum = 0, squares = 0;
    bool memory = false;
  };
  std::map<std::tuple<std::string, std::string, std::string, bool>, size_t> index;
  std::vector<Sum> sums;
  for (size_t row = 0; row < t.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const double error, t.RequiredNumber(row, "log_error"));
    if (std::abs(error) > 5) {
      return Invalid(
          fmt::format("{}: log error {} is beyond all sense (natural logarithm of "
                      "observed over predicted)",
                      t.Where(row, "log_error"), error));
    }
    const bool memory = t.Text(row, "op_class") == "memory";
    const auto [at, added] = index.emplace(
        std::tuple(std::string(t.Text(row, "dataset")), std::string(t.Text(row, "device")),
                   std::string(t.Text(row, "model")), memory),
        sums.size());
    if (added) sums.emplace_back().memory = memory;
    Sum& s = sums[at->second];
    s.n += 1;
    s.sum += error;
    s.squares += error * error;
  }
  std::vector<ResidualBlock> blocks;
  bool any = false;
  for (const Sum& s : sums) {
    const double mean = s.sum / s.n;
    const double variance = s.n > 1 ? std::max(0.0, s.squares / s.n - mean * mean) : 0;
    blocks.push_back({mean, std::sqrt(variance / s.n), s.memory});
    any = any || !s.memory;
  }
  if (!any) return Invalid(fmt::format("{}: no residuals of times", name));
  return blocks;
}

ResidualWorld::ResidualWorld(const cluster::Cluster& cluster, SoloTable predicted, SlowdownLaw law,
                             std::vector<ResidualBlock> blocks, uint64_t seed)
    : cluster_(cluster), predicted_(std::move(predicted)), law_(std::move(law)), seed_(seed) {
  for (const auto& b : blocks) (b.memory ? memories_ : times_).push_back(b);
  HASE_CHECK(!times_.empty(), "no residual blocks");
}

const ResidualWorld::Draw& ResidualWorld::DrawOf(ModelId model, DeviceTypeId type) const {
  const auto [at, added] = draws_.try_emplace({model, type});
  if (!added) return at->second;
  // Keyed by what it is for, not by the order of asking.
  Rng rng(Mix(Mix(seed_, model.index() + 1), type.index() + 1));
  const auto pick = [&rng](const std::vector<ResidualBlock>& blocks) {
    const auto& b = blocks[static_cast<size_t>(rng.UniformInt(0, std::ssize(blocks) - 1))];
    return std::exp(b.bias + b.sigma * rng.Normal());
  };
  at->second.time = pick(times_);
  at->second.load = std::exp(kLoadSigma * rng.Normal());
  if (!memories_.empty()) at->second.memory = pick(memories_);
  return at->second;
}

std::optional<Solo> ResidualWorld::Alone(ModelId model, DeviceId device, int64_t batch) const {
  const auto type = cluster_.devices[device.index()].type;
  auto solo = predicted_(model, type, batch);
  if (!solo) return std::nullopt;
  const Draw& draw = DrawOf(model, type);
  solo->batch_s *= draw.time;
  solo->load_s *= draw.load;
  solo->memory = Scale(solo->memory, draw.memory);
  return solo;
}

void ResidualWorld::Slowdowns(DeviceId device, std::span<const Occupant> occupants,
                              std::span<double> factors) const {
  const auto type = cluster_.devices[device.index()].type;
  std::vector<Occupant> others;
  for (size_t i = 0; i < occupants.size(); ++i) {
    others.clear();
    for (size_t j = 0; j < occupants.size(); ++j) {
      if (j != i) others.push_back(occupants[j]);
    }
    const double predicted = std::max(1.0, law_(type, occupants[i], others));
    Rng rng(Mix(Mix(seed_ + 1, occupants[i].model.index() + 1), type.index() + 1));
    const double residual = others.empty() ? 1 : std::exp(kSlowdownSigma * rng.Normal());
    factors[i] = 1 + (predicted - 1) * residual;
  }
}

double ResidualWorld::RunNoise(JobId job, uint64_t run) const {
  Rng rng(Mix(Mix(seed_ + 2, job.index()), run));
  return std::exp(kRunSigma * rng.Normal());
}

}  // namespace hase::world

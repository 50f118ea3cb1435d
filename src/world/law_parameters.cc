// data/w3.yaml into LawParameters; every key must be there, so that no figure is silently a
// default.
#include <fmt/core.h>

#include "base/yaml.h"
#include "world/law_world.h"

namespace hase::world {
namespace {

// A number that must lie in [lo, hi], at map[key].
Status Take(const Yaml& map, std::string_view key, double lo, double hi, double& out) {
  HASE_ASSIGN_OR_RETURN(const Yaml node, map.Get(key));
  HASE_ASSIGN_OR_RETURN(out, node.Number());
  if (out < lo || out > hi) {
    return Invalid(
        fmt::format("{}: {} = {} must be between {:g} and {:g}", node.Where(), key, out, lo, hi));
  }
  return {};
}

Status TakeEfficiencies(const Yaml& root, LawParameters& p) {
  HASE_ASSIGN_OR_RETURN(const Yaml map, root.Get("efficiency"));
  double other = 0;
  HASE_RETURN_IF_ERROR(Take(map, "other", 0.001, 1, other));
  p.efficiency.fill(other);
  for (const auto& key : map.Keys()) {
    if (key == "other") continue;
    const auto op_class = model::ParseOpClass(key);
    if (!op_class) return Invalid(fmt::format("{}: {}", map.Where(), op_class.error().message));
    HASE_RETURN_IF_ERROR(Take(map, key, 0.001, 1, p.efficiency[static_cast<size_t>(*op_class)]));
  }
  return {};
}

Status TakeSustained(const Yaml& root, LawParameters& p) {
  HASE_ASSIGN_OR_RETURN(const Yaml map, root.Get("sustained"));
  for (const auto& key : map.Keys()) {
    double factor = 0;
    HASE_RETURN_IF_ERROR(Take(map, key, 0.05, 1, factor));
    if (key == "default") {
      p.sustained_default = factor;
    } else {
      p.sustained.emplace_back(key, factor);
    }
  }
  if (p.sustained_default == 0) {
    return Invalid(fmt::format("{}: key 'default' is missing", map.Where()));
  }
  return {};
}

struct Field {
  std::string_view map, key;  // map empty: at the top
  double LawParameters::* field;
  double lo, hi;
};
constexpr Field kFields[] = {
    {"", "bandwidth_efficiency", &LawParameters::bandwidth_efficiency, 0.05, 1},
    {"", "l2_ratio", &LawParameters::l2_ratio, 1, 20},
    {"", "l2_hit", &LawParameters::l2_hit, 0, 1},
    {"", "overlap", &LawParameters::overlap, 1, 20},
    {"", "tile", &LawParameters::tile, 1, 1e6},
    {"gap_us", "gpu", &LawParameters::gap_gpu_us, 0, 1000},
    {"gap_us", "cpu", &LawParameters::gap_cpu_us, 0, 1000},
    {"", "reduced_precision_efficiency", &LawParameters::reduced_precision_efficiency, 0.05, 1},
    {"", "card_sigma", &LawParameters::card_sigma, 0, 0.5},
    {"", "card_bound", &LawParameters::card_bound, 0, 0.5},
    {"", "run_sigma", &LawParameters::run_sigma, 0, 0.5},
    {"", "power_knee", &LawParameters::power_knee, 0, 3},
    {"", "power_slope", &LawParameters::power_slope, 0, 1},
    {"power_weight", "sm", &LawParameters::power_sm, 0, 1},
    {"power_weight", "dram", &LawParameters::power_dram, 0, 1},
    {"", "l2_eviction", &LawParameters::l2_eviction, 0, 2},
    {"", "share_exponent", &LawParameters::share_exponent, 0.1, 2},
    {"", "switch_cost", &LawParameters::switch_cost, 0, 1},
    {"load", "base_s", &LawParameters::load_base_s, 0, 100},
    {"load", "cpu_base_s", &LawParameters::load_cpu_base_s, 0, 100},
    {"load", "disk_gb_s", &LawParameters::disk_gb_s, 0.01, 100},
    {"load", "kernel_ms", &LawParameters::load_kernel_ms, 0, 1000},
    {"memory", "context_mib", &LawParameters::context_mib, 0, 10000},
    {"memory", "cpu_context_mib", &LawParameters::cpu_context_mib, 0, 10000},
    {"memory", "activation_factor", &LawParameters::activation_factor, 0.5, 5},
    {"memory", "workspace_part", &LawParameters::workspace_part, 0, 2},
    {"memory", "load_weight_copies", &LawParameters::load_weight_copies, 1, 5},
};

}  // namespace

Result<LawParameters> ParseLawParameters(const std::string& name, const std::string& text) {
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Parse(name, text));
  std::vector<std::string_view> known = {"efficiency", "sustained"};
  for (const auto& f : kFields) known.push_back(f.map.empty() ? f.key : f.map);
  HASE_RETURN_IF_ERROR(root.CheckKeys(known));
  LawParameters p;
  HASE_RETURN_IF_ERROR(TakeEfficiencies(root, p));
  HASE_RETURN_IF_ERROR(TakeSustained(root, p));
  for (const auto& f : kFields) {
    if (f.map.empty()) {
      HASE_RETURN_IF_ERROR(Take(root, f.key, f.lo, f.hi, p.*f.field));
      continue;
    }
    HASE_ASSIGN_OR_RETURN(const Yaml map, root.Get(f.map));
    HASE_RETURN_IF_ERROR(Take(map, f.key, f.lo, f.hi, p.*f.field));
  }
  return p;
}

}  // namespace hase::world

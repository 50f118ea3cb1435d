#include "latency/table_estimator.h"

#include <fmt/core.h>

#include <cmath>
#include <set>

#include "base/csv.h"
#include "cluster/model_rows.h"

namespace hase::latency {
namespace {

constexpr double kMostMs = 1e9;              // eleven days
constexpr double kP90 = 1.2815515655446004;  // the normal quantile

Result<Estimate> ReadEstimate(const CsvTable& t, size_t row) {
  HASE_ASSIGN_OR_RETURN(const double p50, t.RequiredNumber(row, "p50_ms"));
  HASE_ASSIGN_OR_RETURN(const auto p10, t.Number(row, "p10_ms"));
  HASE_ASSIGN_OR_RETURN(const auto p90, t.Number(row, "p90_ms"));
  HASE_ASSIGN_OR_RETURN(const auto memory, t.Integer(row, "memory_bytes"));
  HASE_ASSIGN_OR_RETURN(const auto load, t.Number(row, "load_ms"));
  if (p50 <= 0 || p50 > kMostMs) {
    return Invalid(fmt::format("{}: latency {:g} must be above 0 and at most {:g} ms",
                               t.Where(row, "p50_ms"), p50, kMostMs));
  }
  for (const char* column : {"p90_ms", "load_ms"}) {
    HASE_ASSIGN_OR_RETURN(const auto value, t.Number(row, column));
    if (value.value_or(0) > kMostMs) {
      return Invalid(
          fmt::format("{}: {:g} must be at most {:g} ms", t.Where(row, column), *value, kMostMs));
    }
  }
  if (p10.value_or(p50) <= 0 || p10.value_or(p50) > p50 || p90.value_or(p50) < p50) {
    return Invalid(
        fmt::format("{}: p10, p50 and p90 must be above 0 and in order", t.Where(row, "p10_ms")));
  }
  if (memory.value_or(0) < 0 || load.value_or(0) < 0) {
    return Invalid(fmt::format("{}: must not be negative",
                               t.Where(row, memory.value_or(0) < 0 ? "memory_bytes" : "load_ms")));
  }
  Estimate e;
  e.latency_s = p50 * 1e-3;
  e.shared_sigma = std::log(p90.value_or(p50) / p10.value_or(p50)) / (2 * kP90);
  e.memory_run = e.memory_load = Bytes(memory.value_or(0));
  e.load_s = load.value_or(0) * 1e-3;
  return e;
}

}  // namespace

Result<TableEstimator> TableEstimator::Parse(const std::string& name, std::string_view text,
                                             const model::ModelTable& models,
                                             std::span<const cluster::DeviceType> types) {
  HASE_ASSIGN_OR_RETURN(const CsvTable t,
                        CsvTable::Parse(name, text,
                                        {"model", "device_type", "batch", "runtime", "precision",
                                         "p10_ms", "p50_ms", "p90_ms", "memory_bytes", "load_ms"},
                                        {"model", "device_type", "batch", "p50_ms"}));
  TableEstimator table;
  table.name_ = name;
  for (const auto& ref : models.refs()) table.model_names_.push_back(ref.name);
  for (const auto& type : types) table.type_names_.push_back(type.name);
  std::set<std::string> seen;
  for (size_t row = 0; row < t.rows(); ++row) {
    std::string key;
    for (const char* column : {"model", "device_type", "batch", "runtime", "precision"}) {
      key += t.Text(row, column);
      key += '\n';
    }
    if (!seen.insert(std::move(key)).second) {
      return Invalid(
          fmt::format("{}: this model, device, batch, runtime and precision stand in an "
                      "earlier row",
                      t.Where(row, "model")));
    }
    HASE_ASSIGN_OR_RETURN(const auto targets, cluster::MatchRow(t, row, models, types));
    HASE_ASSIGN_OR_RETURN(const Estimate estimate, ReadEstimate(t, row));
    for (const auto& target : targets.pairs) {
      table.Set(target.first, target.second, targets.batch, estimate);
    }
  }
  return table;
}

void TableEstimator::Set(ModelId model, DeviceTypeId type, int64_t batch, Estimate estimate) {
  estimates_[{model, type, batch}] = std::move(estimate);
}

const Estimate* TableEstimator::Find(ModelId model, DeviceTypeId type, int64_t batch) const {
  const auto at = estimates_.find({model, type, batch});
  return at == estimates_.end() ? nullptr : &at->second;
}

std::string TableEstimator::WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const {
  if (Find(model, type, batch)) return {};
  const auto name = [](const std::vector<std::string>& names, uint32_t i) {
    return i < names.size() ? names[i] : fmt::format("#{}", i);
  };
  return fmt::format("{} has no row for {} at batch {} on {}", name_,
                     name(model_names_, model.index()), batch, name(type_names_, type.index()));
}

double TableEstimator::Slowdown(const Tenant& tenant, DeviceTypeId, std::span<const Tenant> others,
                                const ForeignLoad& foreign) const {
  std::vector<cluster::SlowdownKey> keys;
  keys.reserve(others.size());
  for (const auto& o : others) keys.push_back({o.model, o.batch, o.share});
  const double factor = slowdowns_.Factor({tenant.model, tenant.batch, tenant.share}, keys);
  // Strangers take their part of the multiprocessors away.
  return foreign.valid ? factor / std::max(0.05, 1 - foreign.sm) : factor;
}

}  // namespace hase::latency

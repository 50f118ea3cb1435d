#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/csv.h"
#include "base/file.h"
#include "base/yaml.h"
#include "workload/reader.h"

namespace hase::workload {
namespace {

Result<double> NumberIn(const Yaml& y, std::string_view key, double lo, double hi) {
  HASE_ASSIGN_OR_RETURN(const Yaml node, y.Get(key));
  HASE_ASSIGN_OR_RETURN(const double v, node.Number());
  if (v < lo || v > hi) {
    return Invalid(
        fmt::format("{}: {} {} must be between {:g} and {:g}", node.Where(), key, v, lo, hi));
  }
  return v;
}

// Whether the rate is a number at all, be it negative or NaN (YAML writes .nan).
bool IsNumber(const Yaml& y) {
  const auto text = y.Text("rate_rps");
  if (!text) return false;
  const std::string digits = text->starts_with('.') ? text->substr(1) : *text;
  char* end = nullptr;
  std::strtod(digits.c_str(), &end);
  return end != digits.c_str() && *end == '\0';
}

Status ReadRate(const Yaml& y, const std::filesystem::path& folder, Service& service) {
  const bool constant = y.Find("rate_rps").has_value(), file = y.Find("rate_file").has_value();
  if (constant == file) {
    return Invalid(fmt::format("{}: service '{}' needs rate_rps or rate_file, one of them",
                               y.Where(), service.name));
  }
  if (constant) {
    const auto rate = NumberIn(y, "rate_rps", 0, 1e9);
    if (!rate && IsNumber(y))
      return Infeasible(
          fmt::format("{}; service '{}' asks for nothing that can be served; nearest "
                      "feasible: a rate above 0",
                      rate.error().message, service.name));
    if (!rate) return std::unexpected(rate.error());
    service.rate = {{Nanos(0), *rate}};
    return {};
  }
  HASE_ASSIGN_OR_RETURN(const std::string name, y.Text("rate_file"));
  const auto path = (folder / name).string();
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{1} << 28));
  HASE_ASSIGN_OR_RETURN(service.rate, ParseRates(path, text));
  return {};
}

Status ReadWishes(const Yaml& y, Service& service) {
  if (const auto node = y.Find("runtime")) {
    HASE_ASSIGN_OR_RETURN(const std::string text, node->Text());
    const auto runtime = model::ParseRuntime(text);
    if (!runtime) return Invalid(fmt::format("{}: {}", node->Where(), runtime.error().message));
    service.runtime = *runtime;
  }
  if (const auto node = y.Find("precision")) {
    HASE_ASSIGN_OR_RETURN(const std::string text, node->Text());
    const auto precision = model::ParsePrecision(text);
    if (!precision) return Invalid(fmt::format("{}: {}", node->Where(), precision.error().message));
    service.precision = *precision;
  }
  return {};
}

Result<Service> ReadService(const Yaml& y, const std::filesystem::path& folder) {
  HASE_RETURN_IF_ERROR(y.CheckKeys({"name", "model", "rate_rps", "rate_file", "slo_ms",
                                    "slo_percentile", "max_batch", "runtime", "precision"}));
  Service service;
  HASE_ASSIGN_OR_RETURN(service.name, y.Text("name"));
  HASE_ASSIGN_OR_RETURN(service.model, y.Text("model"));
  HASE_RETURN_IF_ERROR(ReadRate(y, folder, service));
  HASE_ASSIGN_OR_RETURN(service.slo_ms, NumberIn(y, "slo_ms", 1e-3, 1e7));
  if (y.Find("slo_percentile")) {
    HASE_ASSIGN_OR_RETURN(service.slo_percentile, NumberIn(y, "slo_percentile", 0.01, 0.99999));
  }
  if (y.Find("max_batch")) {
    HASE_ASSIGN_OR_RETURN(const double batch, NumberIn(y, "max_batch", 1, 1 << 16));
    HASE_ASSIGN_OR_RETURN(service.max_batch, y.Integer("max_batch"));
    (void)batch;
  }
  HASE_RETURN_IF_ERROR(ReadWishes(y, service));
  return service;
}

}  // namespace

Result<std::vector<RatePoint>> ParseRates(const std::string& name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(name, text, {"time_s", "rate_rps"},
                                                              {"time_s", "rate_rps"}));
  std::vector<RatePoint> rates;
  for (size_t row = 0; row < table.rows(); ++row) {
    HASE_ASSIGN_OR_RETURN(const double time, table.RequiredNumber(row, "time_s"));
    HASE_ASSIGN_OR_RETURN(const double rate, table.RequiredNumber(row, "rate_rps"));
    if (time < 0 || time > 1e9) {
      return Invalid(fmt::format("{}: time {} s", table.Where(row, "time_s"), time));
    }
    if (rate < 0 || rate > 1e9) {
      return Invalid(
          fmt::format("{}: rate {} must not be negative", table.Where(row, "rate_rps"), rate));
    }
    if (!rates.empty() && FromSeconds(time) <= rates.back().time) {
      return Invalid(fmt::format("{}: times must grow", table.Where(row, "time_s")));
    }
    rates.push_back({FromSeconds(time), rate});
  }
  if (rates.empty()) return Invalid(fmt::format("{}: no rates", name));
  return rates;
}

Result<std::vector<Service>> LoadServices(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{64} << 20));
  return ParseServices(path, text);
}

Result<std::vector<Service>> ParseServices(const std::string& path, const std::string& text) {
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Parse(path, text));
  HASE_RETURN_IF_ERROR(root.CheckKeys({"services"}));
  HASE_ASSIGN_OR_RETURN(const Yaml list, root.Get("services"));
  HASE_ASSIGN_OR_RETURN(const auto items, list.Items());
  std::vector<Service> services;
  std::set<std::string> names;
  const auto folder = std::filesystem::path(path).parent_path();
  for (const auto& item : items) {
    HASE_ASSIGN_OR_RETURN(Service service, ReadService(item, folder));
    if (!names.insert(service.name).second) {
      return Invalid(fmt::format("{}: service '{}' stands twice", item.Where(), service.name));
    }
    services.push_back(std::move(service));
  }
  if (services.empty()) return Invalid(fmt::format("{}: no services", list.Where()));
  return services;
}

}  // namespace hase::workload

// trtexec's exports. Times: a list of {startEnqMs, endEnqMs, startH2dMs, … h2dMs, computeMs, d2hMs,
// latencyMs}; releases before 8.5 wrote {inMs, computeMs, outMs, latencyMs, endToEndMs}. Profile:
// a list whose first entry is {count} (runs), then {name, timeMs, averageMs, medianMs, percentage}
// per layer, whose name joins those of the ONNX nodes it holds by " + ".
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "latency/imports/imports.h"

namespace hase::latency {
namespace {

using nlohmann::json;
constexpr std::string_view kSource = "trtexec";

Result<double> PositiveMs(const json& entry, const char* key, const std::string& where) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_number()) {
    return Invalid(fmt::format("{}: {} is no number", where, key));
  }
  const double ms = it->get<double>();
  if (!(ms > 0) || !std::isfinite(ms)) {
    return Invalid(fmt::format("{}: {} must be above 0, not {}", where, key, ms));
  }
  return ms;
}

Result<Imported> ReadTimes(const std::string& file, const json& list, const ImportLabel& label) {
  std::vector<double> us;
  for (size_t i = 0; i < list.size(); ++i) {
    HASE_ASSIGN_OR_RETURN(const double ms,
                          PositiveMs(list[i], "latencyMs", fmt::format("{}: run {}", file, i + 1)));
    us.push_back(ms * 1e3);
  }
  Imported out;
  Sample whole = WholeSampleOf(label, kSource);
  Spread(std::move(us), &whole);
  out.samples.push_back(std::move(whole));
  return out;
}

// "Conv_0 + Relu_1" holds "Conv_0"; parts are compared whole.
std::vector<std::string> PartsOf(std::string_view layer) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= layer.size();) {
    const size_t end = std::min(layer.find(" + ", start), layer.size());
    parts.emplace_back(layer.substr(start, end - start));
    start = end + 3;
  }
  return parts;
}

Result<Imported> ReadProfile(const std::string& file, const json& list, const ImportLabel& label) {
  if (label.kernels == nullptr) {
    return Usage(fmt::format(
        "{}: a profile of layers needs a model whose kernels are known (--model)", file));
  }
  std::unordered_map<std::string, const model::Kernel*> by_name;
  for (const auto& kernel : label.kernels->kernels) by_name[kernel.name] = &kernel;
  Imported out;
  int64_t runs = 1;
  double all = 0, matched = 0;
  int layers = 0, unknown = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}: entry {}", file, i + 1);
    if (!list[i].is_object()) return Invalid(where + ": not an object");
    if (list[i].contains("count")) {
      if (!list[i]["count"].is_number_integer()) return Invalid(where + ": count is no number");
      runs = list[i]["count"].get<int64_t>();
      continue;
    }
    if (!list[i].contains("name") || !list[i]["name"].is_string()) {
      return Invalid(where + ": a layer without a name");
    }
    const char* key = list[i].contains("medianMs") ? "medianMs" : "averageMs";
    if (list[i].contains(key) && list[i][key].is_number() && list[i][key].get<double>() == 0) {
      continue;  // a layer that costs nothing (a view)
    }
    HASE_ASSIGN_OR_RETURN(const double ms, PositiveMs(list[i], key, where));
    ++layers;
    all += ms;
    const model::Kernel* kernel = nullptr;
    for (const auto& part : PartsOf(list[i]["name"].get<std::string>())) {
      if (const auto it = by_name.find(part); it != by_name.end() && kernel == nullptr) {
        kernel = it->second;
      }
    }
    if (kernel == nullptr) {
      ++unknown;
      continue;
    }
    matched += ms;
    Sample s = WholeSampleOf(label, kSource);
    s.whole_model = false;
    s.kernel = *kernel;
    s.latency_us = ms * 1e3;
    s.repeats = runs;
    out.samples.push_back(std::move(s));
  }
  if (unknown > 0) {
    out.notes.push_back(
        fmt::format("{}: {} of {} layers ({:.1f} % of the time) are no kernel of {}", file, unknown,
                    layers, 100 * (1 - matched / std::max(all, 1e-12)), label.model));
  }
  return out;
}

}  // namespace

Result<Imported> ImportTrtexec(const std::string& file, std::string_view text,
                               const ImportLabel& label) {
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array() || list.empty() || !list[0].is_object()) {
    return Invalid(fmt::format("{}: not a JSON list of objects, as trtexec exports", file));
  }
  return list[0].contains("count") || list[0].contains("averageMs") ? ReadProfile(file, list, label)
                                                                    : ReadTimes(file, list, label);
}

}  // namespace hase::latency

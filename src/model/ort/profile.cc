// Reads the trace that ONNX Runtime's profiler writes: a JSON list of events, of which those of
// category "Node" named "…_kernel_time" hold one execution of one node each (duration in whole
// microseconds). Kernel events of GPU providers ("Kernel" category) are left out: node times of
// asynchronous providers say when work was launched, not how long it took (docs/limits.md).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/ort/session.h"

namespace hase::model::ort {
namespace {

using nlohmann::json;

constexpr std::string_view kSuffix = "_kernel_time";

std::string TextAt(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

double Quantile(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (position - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

// "output_type_shape": [{"float": [1, 64, 56, 56]}, …], the first one's dimensions.
Shape FirstShape(const json& args) {
  const auto list = args.find("output_type_shape");
  if (list == args.end() || !list->is_array() || list->empty()) return {};
  const json& first = list->front();
  if (!first.is_object() || first.empty() || !first.begin()->is_array()) return {};
  Shape shape;
  for (const json& dim : *first.begin()) {
    if (!dim.is_number_integer()) return {};
    shape.push_back(dim.get<int64_t>());
  }
  return shape;
}

struct Executions {
  std::string op, provider;
  Shape output;
  std::vector<double> durations_us;
};

}  // namespace

Result<std::vector<NodeTime>> ParseProfile(std::string_view text, const std::string& name,
                                           int skipped_runs) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_array()) {
    return Invalid(fmt::format("{}: not an ONNX Runtime profile (a JSON list)", name));
  }
  std::vector<std::string> order;
  std::map<std::string, Executions> nodes;
  for (const json& event : document) {
    if (!event.is_object() || TextAt(event, "cat") != "Node") continue;
    std::string node = TextAt(event, "name");
    const auto duration = event.find("dur");
    if (!node.ends_with(kSuffix) || duration == event.end() || !duration->is_number()) continue;
    node.resize(node.size() - kSuffix.size());
    auto [entry, fresh] = nodes.try_emplace(node);
    if (fresh) {
      order.push_back(node);
      const json args = event.value("args", json::object());
      entry->second.op = TextAt(args, "op_name");
      entry->second.provider = TextAt(args, "provider");
      if (args.is_object()) entry->second.output = FirstShape(args);
    }
    entry->second.durations_us.push_back(duration->get<double>());
  }
  std::vector<NodeTime> times;
  for (const auto& node : order) {
    auto& [op, provider, output, all] = nodes[node];
    const auto skipped = std::min(all.size(), static_cast<size_t>(std::max(skipped_runs, 0)));
    std::vector<double> kept(all.begin() + static_cast<std::ptrdiff_t>(skipped), all.end());
    if (kept.empty()) continue;
    std::ranges::sort(kept);
    times.push_back({.name = node,
                     .op = op,
                     .provider = provider,
                     .output = output,
                     .p10_us = Quantile(kept, 0.1),
                     .p50_us = Quantile(kept, 0.5),
                     .p90_us = Quantile(kept, 0.9),
                     .runs = static_cast<int64_t>(kept.size())});
  }
  if (times.empty()) {
    return Invalid(
        fmt::format("{}: holds no node executions after skipping {} runs", name, skipped_runs));
  }
  return times;
}

}  // namespace hase::model::ort

#include "execution/worker/profile.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

namespace hase::execution {
namespace {

latency::Sample WholeSample(const ProfileRequest& request, const Measurement& m) {
  latency::Sample sample;
  sample.whole_model = true;
  sample.kernel.op = "Model";
  sample.kernel.op_class = model::OpClass::kOther;
  sample.kernel.precision = request.kernels->precision;
  for (const auto& kernel : request.kernels->kernels) {
    sample.kernel.flops += kernel.flops;
    sample.kernel.bytes_activations += kernel.bytes_activations;
    sample.kernel.bytes_weights += kernel.bytes_weights;
    sample.kernel.bytes_written += kernel.bytes_written;
  }
  sample.latency_us = ToMicros(m.typical);
  sample.spread = m.spread();
  sample.repeats = m.runs;
  sample.memory_load = m.loaded.peak;
  sample.memory_run = m.peak_run;
  sample.load_time = m.loaded.load;
  return sample;
}

void Label(latency::Sample& sample, const ProfileRequest& request) {
  sample.model = request.kernels->model;
  sample.batch = request.kernels->batch;
  sample.device = request.device;
  sample.runtime = request.kernels->runtime;
  sample.source = "profile";
}

// Which node each kernel is, nullptr where the profile has none. By name; then, what is left over
// by operator and output shape in execution order: ONNX Runtime numbers the reorders that it puts
// in ("ReorderOutput_token_17") and the number tells nothing.
std::vector<const model::ort::NodeTime*> Match(const model::ModelKernels& kernels,
                                               const std::vector<model::ort::NodeTime>& nodes) {
  std::unordered_map<std::string, const model::ort::NodeTime*> by_name;
  for (const auto& node : nodes) by_name[node.name] = &node;
  std::vector<const model::ort::NodeTime*> found;
  for (const auto& kernel : kernels.kernels) {
    const auto it = by_name.find(kernel.name);
    found.push_back(it == by_name.end() ? nullptr : it->second);
    if (found.back() != nullptr) by_name.erase(it);
  }
  std::map<std::pair<std::string, model::Shape>, std::deque<const model::ort::NodeTime*>> left;
  for (const auto& node : nodes) {
    if (by_name.contains(node.name)) left[{node.op, node.output}].push_back(&node);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != nullptr) continue;
    const auto it = left.find({kernels.kernels[i].op, kernels.kernels[i].output});
    if (it == left.end() || it->second.empty()) continue;
    found[i] = it->second.front();
    it->second.pop_front();
  }
  return found;
}

}  // namespace

std::vector<model::ort::NodeTime> MedianNodes(
    const std::vector<std::vector<model::ort::NodeTime>>& rounds) {
  if (rounds.empty()) return {};
  std::unordered_map<std::string, std::vector<const model::ort::NodeTime*>> by_name;
  for (const auto& round : rounds) {
    for (const auto& node : round) by_name[node.name].push_back(&node);
  }
  const auto median = [](std::vector<double> values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, at);
    return *at;
  };
  std::vector<model::ort::NodeTime> nodes = rounds.front();
  for (auto& node : nodes) {
    std::vector<double> p10, p50, p90;
    node.runs = 0;
    for (const auto* one : by_name.at(node.name)) {
      p10.push_back(one->p10_us);
      p50.push_back(one->p50_us);
      p90.push_back(one->p90_us);
      node.runs += one->runs;
    }
    node.p10_us = median(std::move(p10));
    node.p50_us = median(std::move(p50));
    node.p90_us = median(std::move(p90));
  }
  return nodes;
}

ProfileResult Reconcile(const model::ModelKernels& kernels,
                        const std::vector<model::ort::NodeTime>& nodes, double whole_us) {
  double total = 0, matched = 0;
  for (const auto& node : nodes) total += node.p50_us;
  ProfileResult result;
  const auto found = Match(kernels, nodes);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == nullptr) {
      ++result.missing;
      continue;
    }
    const auto& node = *found[i];
    latency::Sample sample;
    sample.kernel = kernels.kernels[i];
    sample.latency_us = node.p50_us;
    sample.spread = node.p50_us > 0 ? (node.p90_us - node.p10_us) / node.p50_us : 0;
    sample.repeats = node.runs;
    matched += node.p50_us;
    result.kernels.push_back(std::move(sample));
  }
  result.unmatched = total > 0 ? 1 - matched / total : 0;
  result.factor = total > 0 ? whole_us / total : 0;
  // What unmatched nodes took is shared out too, so that the kernels of a model sum to its time.
  const double scale = matched > 0 ? whole_us / matched : 0;
  for (auto& sample : result.kernels) sample.latency_us *= scale;
  return result;
}

Result<ProfileResult> ProfileModel(const Partition& partition, const ProfileRequest& request) {
  LoadRequest load;
  load.model = request.onnx.string();
  load.batch = request.kernels->batch;
  std::vector<Measurement> wholes;
  std::vector<std::vector<model::ort::NodeTime>> nodes;
  for (int round = 0; round < std::max(request.rounds, 1); ++round) {
    load.profile_prefix.clear();
    HASE_ASSIGN_OR_RETURN(Measurement whole, Measure(partition, load, request.measure));
    wholes.push_back(std::move(whole));
    if (!request.kernel_times) continue;
    load.profile_prefix = (request.scratch / fmt::format("ort-profile-{}", getpid())).string();
    HASE_ASSIGN_OR_RETURN(Measurement profiled, Measure(partition, load, request.measure));
    nodes.push_back(std::move(profiled.nodes));
  }
  const auto middle = wholes.begin() + static_cast<std::ptrdiff_t>(wholes.size() / 2);
  std::ranges::nth_element(wholes, middle, {}, &Measurement::typical);
  const Measurement& whole = *middle;
  ProfileResult result;
  if (request.kernel_times) {
    result = Reconcile(*request.kernels, MedianNodes(nodes), ToMicros(whole.typical));
    // Kernels would carry the time of nodes that are not theirs: better none than wrong ones.
    if (result.unmatched > kMostUnmatched) result.kernels.clear();
  }
  result.whole = WholeSample(request, whole);
  Label(result.whole, request);
  for (auto& sample : result.kernels) Label(sample, request);
  return result;
}

}  // namespace hase::execution

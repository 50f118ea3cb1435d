#include "placement/services/capacity.h"

#include <algorithm>
#include <cmath>

namespace hase::placement {
namespace {

using cluster::ShareMode;
constexpr int kMpsStepMilli = 25, kQuotaStepMilli = 50, kLeastMilli = 50;

std::vector<int64_t> BatchSizes(int64_t max_batch) {
  std::vector<int64_t> sizes;
  for (int64_t b = 1; b < max_batch; b *= 2) sizes.push_back(b);
  sizes.push_back(std::max<int64_t>(1, max_batch));
  return sizes;
}

}  // namespace

ShareMode DivisionMode(std::span<const ShareMode> modes) {
  for (const auto mode : {ShareMode::kMps, ShareMode::kMig, ShareMode::kCpuQuota})
    if (std::find(modes.begin(), modes.end(), mode) != modes.end()) return mode;
  return ShareMode::kTimeSlice;
}

std::vector<MilliShare> ShareSteps(ShareMode mode) {
  std::vector<MilliShare> steps;
  if (mode == ShareMode::kMig) {
    for (const int slices : {1, 2, 3, 4, 7}) steps.push_back(MilliShare((1000 * slices + 3) / 7));
    return steps;
  }
  if (mode == ShareMode::kTimeSlice || mode == ShareMode::kExclusive) return {kWholeDevice};
  const int step = mode == ShareMode::kMps ? kMpsStepMilli : kQuotaStepMilli;
  for (int milli = kLeastMilli; milli <= 1000; milli += step) steps.push_back(MilliShare(milli));
  return steps;
}

Choice Capacity::Best(const ShareStep& step, double factor, double slo_s) const {
  Choice best;
  for (const BatchOption& option : step.batches) {
    BatchServer server = option.server;
    server.run_s *= factor;
    const double rate =
        BatchQueue::SustainableRate(option.response, server, slo_s) * step.grant.processes;
    // A larger batch must earn its memory.
    if (rate > best.rate_rps * 1.005) best = {option.batch, rate, &option};
  }
  return best;
}

double Capacity::best_density() const {
  double best = 0;
  for (const auto& step : steps)
    best = std::max(best, step.rate_rps / ToFraction(step.grant.share));
  return best;
}

CapacityTable::CapacityTable(const ServiceView& view, const latency::ServiceModel& model,
                             double margin)
    : view_(view), model_(model), margin_(margin) {}

const BatchQueue& CapacityTable::Queue(size_t service) const {
  const double p = view_.services[service].slo_percentile;
  auto& queue = queues_[std::llround(p * 1e6)];
  if (!queue) queue = std::make_unique<BatchQueue>(p);
  return *queue;
}

const Capacity& CapacityTable::Of(size_t service, DeviceTypeId type, ShareMode mode) const {
  const size_t modes = 5;
  if (direct_.empty()) direct_.resize(view_.services.size() * view_.types.size() * modes);
  const Capacity*& direct =
      direct_[(service * view_.types.size() + type.index()) * modes + static_cast<size_t>(mode)];
  if (direct == nullptr) direct = &OfProcesses(service, type, mode, 1);
  return *direct;
}

const Capacity& CapacityTable::OfProcesses(size_t service, DeviceTypeId type, ShareMode mode,
                                           int processes) const {
  const ServiceDemand& d = view_.services[service];
  const Key key{d.model.index(),
                type.index(),
                static_cast<uint8_t>(mode),
                processes,
                std::llround(d.slo_ms * 1e3),
                std::llround(d.slo_percentile * 1e6),
                d.max_batch};
  auto found = capacities_.find(key);
  if (found == capacities_.end())
    found = capacities_.emplace(key, Compute(d, type, mode, processes, Queue(service))).first;
  return found->second;
}

Capacity CapacityTable::Compute(const ServiceDemand& demand, DeviceTypeId type, ShareMode mode,
                                int processes, const BatchQueue& queue) const {
  Capacity capacity;
  const auto* first = model_.Find(demand.model, type, 1);
  if (first == nullptr) return capacity;
  capacity.load_s = first->load_s;
  const auto law = model_.Law(demand.model, type);
  const int sms = model_.sm_count(type);
  const double margin = std::exp(margin_ * model_.SharedSigma(demand.model, type));
  const double slo_s = demand.slo_ms * 1e-3;
  double envelope = 0;
  for (const MilliShare share : ShareSteps(mode)) {
    ShareStep step;
    step.grant = {share, mode, processes};
    std::vector<std::pair<int64_t, double>> runs;
    for (const int64_t b : BatchSizes(demand.max_batch)) {
      const auto* batch = model_.Find(demand.model, type, b);
      if (batch == nullptr) break;
      BatchOption option;
      option.batch = b;
      option.plain_run_s = latency::RunSeconds(batch->terms, law, sms, step.grant);
      if (option.plain_run_s > slo_s && b > 1) break;
      option.server = {option.plain_run_s * margin, 1, b};
      if (b > 1 && !view_.padded) {
        option.server.first = std::min(1.0, runs.front().second / option.plain_run_s);
        option.server.bend = BendOf(runs, b, option.plain_run_s, option.server.first);
      }
      runs.emplace_back(b, option.plain_run_s);
      option.response = queue.CurveOf(option.server);
      option.busy = latency::ResidentOf(batch->terms, law, sms, step.grant);
      option.memory = batch->memory * processes;
      step.batches.push_back(option);
    }
    step.rate_rps = capacity.Best(step, 1, slo_s).rate_rps;
    envelope = std::max(envelope, step.rate_rps);
    step.rate_rps = envelope;
    capacity.steps.push_back(std::move(step));
  }
  return capacity;
}

}  // namespace hase::placement

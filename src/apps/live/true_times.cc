#include "apps/live/true_times.h"

#include <algorithm>
#include <limits>

#include "cluster/cluster_file.h"
#include "placement/bounds.h"

namespace hase::live {
namespace {

// Time of a batch over a record's chunks; a chunk's mean, because under a quota a batch is either
// throttled or not.
std::optional<double> BatchSeconds(const execution::LocalRecord& record) {
  std::vector<double> means;
  for (const auto& chunk : record.chunks)
    if (chunk.batches > 0)
      means.push_back(ToSeconds(chunk.busy) / static_cast<double>(chunk.batches));
  if (means.empty()) return std::nullopt;
  std::ranges::nth_element(means, means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2));
  return means[means.size() / 2];
}

}  // namespace

void TrueTimes::Note(const Key& key, double batch_s, double load_s) {
  Entry& entry = entries_[key];
  if (batch_s > 0) entry.batch_s = std::min(entry.batch_s.value_or(batch_s), batch_s);
  if (load_s > 0) entry.load_s = std::min(entry.load_s.value_or(load_s), load_s);
}

void TrueTimes::Add(std::span<const execution::LocalRecord> records) {
  for (const auto& record : records) {
    if (record.share != kWholeDevice) continue;
    const auto batch_s = BatchSeconds(record);
    if (!batch_s) continue;
    const DeviceTypeId type = cluster_.devices[record.device.index()].type;
    Note({record.model, record.batch, type}, *batch_s, ToSeconds(record.loaded.load));
  }
}

void TrueTimes::Add(std::span<const latency::Sample> samples, const model::ModelTable& models) {
  for (const auto& sample : samples) {
    if (!sample.whole_model || sample.share != kWholeDevice) continue;
    const auto model = models.Find({sample.model, std::nullopt, sample.kernel.precision});
    if (!model) continue;
    for (uint32_t t = 0; t < cluster_.types.size(); ++t)
      if (cluster_.types[t].name == sample.device)
        Note({*model, sample.batch, DeviceTypeId(t)}, sample.latency_us * 1e-6,
             ToSeconds(sample.load_time));
  }
}

std::optional<TrueTimes::Time> TrueTimes::Of(ModelId model, DeviceTypeId type,
                                             int64_t batch) const {
  const auto here = entries_.find({model, batch, type});
  if (here != entries_.end() && here->second.batch_s) {
    return Time{.batch_s = *here->second.batch_s,
                .load_s = here->second.load_s.value_or(0),
                .measured = true};
  }
  const auto* wanted = estimator_.Find(model, type, batch);
  if (!wanted) return std::nullopt;
  std::optional<Time> best;
  for (uint32_t t = 0; t < cluster_.types.size(); ++t) {
    const auto there = entries_.find({model, batch, DeviceTypeId(t)});
    const auto* known = estimator_.Find(model, DeviceTypeId(t), batch);
    if (there == entries_.end() || !there->second.batch_s || !known) continue;
    const double ratio = wanted->latency_s / known->latency_s;
    const double load_ratio = known->load_s > 0 ? wanted->load_s / known->load_s : ratio;
    const Time time{.batch_s = *there->second.batch_s * ratio,
                    .load_s = there->second.load_s.value_or(0) * load_ratio};
    if (!best || time.batch_s < best->batch_s) best = time;
  }
  return best;
}

std::optional<double> TrueTimes::MakespanBound(std::span<const execution::JobInput> jobs) const {
  placement::BoundInstance instance;
  for (uint32_t t = 0; t < cluster_.types.size(); ++t) {
    const auto count =
        std::ranges::count(cluster_.devices, DeviceTypeId(t), &cluster::Device::type);
    instance.classes.push_back({.count = static_cast<int>(count)});
  }
  for (const auto& input : jobs) {
    const workload::Job& job = input.job;
    placement::BoundJob bound{.release_s = ToSeconds(job.arrival),
                              .divisible = job.max_parallel > 1,
                              .gang = job.gang,
                              .p_s = {}};
    const auto batches = static_cast<double>((job.inputs + job.batch - 1) / job.batch);
    bool somewhere = false;
    for (uint32_t t = 0; t < cluster_.types.size(); ++t) {
      const bool admitted = job.device_types.empty() ||
                            std::ranges::any_of(job.device_types, [&](const std::string& wish) {
                              return cluster::NamesType(wish, cluster_.types[t]);
                            });
      const auto time = admitted ? Of(input.model, DeviceTypeId(t), job.batch) : std::nullopt;
      somewhere = somewhere || time;
      bound.p_s.push_back(time ? batches / job.gang * time->batch_s + time->load_s
                               : std::numeric_limits<double>::infinity());
    }
    if (!somewhere) return std::nullopt;
    instance.jobs.push_back(std::move(bound));
  }
  return placement::MakespanLowerBound(instance);
}

double TrueTimes::MeasuredPart(std::span<const execution::JobInput> jobs) const {
  int measured = 0, all = 0;
  for (const auto& input : jobs) {
    for (uint32_t t = 0; t < cluster_.types.size(); ++t) {
      const auto time = Of(input.model, DeviceTypeId(t), input.job.batch);
      measured += time && time->measured;
      ++all;
    }
  }
  return all > 0 ? static_cast<double>(measured) / all : 0;
}

std::optional<double> StolenTime(const cluster::Cluster& cluster,
                                 std::span<const execution::LocalRecord> records) {
  Nanos busy, processor;
  for (const auto& record : records) {
    const auto& device = cluster.devices[record.device.index()];
    const auto& type = cluster.types[device.type.index()];
    const bool whole_core = device.cpu_cores.size() == 1 && type.quota == kWholeDevice;
    if (!whole_core || record.share != kWholeDevice) continue;
    for (const auto& chunk : record.chunks) {
      busy += chunk.busy;
      processor += chunk.processor;
    }
  }
  if (busy <= kNoTime) return std::nullopt;
  return std::max(0.0, 1 - Ratio(processor, busy));
}

}  // namespace hase::live

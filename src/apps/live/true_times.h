// What was true of a live run, from its measurements: the time of a batch and of loading, per
// (model, batch, device type), and from them a lower bound of the makespan.
//
// A pair that was measured alone (profile) and in the run counts with the least of its medians:
// neighbours on the machine only ever slow a run down, and a bound must not be too high. A pair
// never measured on a type is scaled from a type where it was, by the ratio of their predictions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "cluster/device.h"
#include "execution/backends/local/local_executor.h"
#include "execution/engine.h"
#include "latency/estimator.h"
#include "latency/sample.h"
#include "model/model_table.h"

namespace hase::live {

class TrueTimes {
 public:
  TrueTimes(const cluster::Cluster& cluster, const latency::Estimator& estimator)
      : cluster_(cluster), estimator_(estimator) {}

  void Add(std::span<const execution::LocalRecord> records);
  // Whole-model samples of `models`; others are skipped.
  void Add(std::span<const latency::Sample> samples, const model::ModelTable& models);

  struct Time {
    double batch_s = 0, load_s = 0;
    bool measured = false;  // else scaled
  };
  std::optional<Time> Of(ModelId model, DeviceTypeId type, int64_t batch) const;
  // Lower bound on the makespan of `jobs`, loading included (every run loads its model anew);
  // nullopt where a job's time is not known.
  std::optional<double> MakespanBound(std::span<const execution::JobInput> jobs) const;
  // Part of the (job, type) times of MakespanBound that were measured, not scaled.
  double MeasuredPart(std::span<const execution::JobInput> jobs) const;

 private:
  using Key = std::tuple<ModelId, int64_t, DeviceTypeId>;
  struct Entry {
    std::optional<double> batch_s, load_s;
  };
  void Note(const Key& key, double batch_s, double load_s);

  const cluster::Cluster& cluster_;
  const latency::Estimator& estimator_;
  std::map<Key, Entry> entries_;
};

// Part of the time of single whole cores that other programs took while jobs ran there: wall time
// of batches without processor time. nullopt where no such core ran anything.
std::optional<double> StolenTime(const cluster::Cluster& cluster,
                                 std::span<const execution::LocalRecord> records);

}  // namespace hase::live

// PartitionLaw: from one CPU partition (cores × quota) of a machine to another.
//
// Prior: time ∝ 1 / quota (a quota at a 5 ms period cuts every term alike; what the period rounds
// costs some per cent) and ∝ cores^-0.85 (parallel efficiency of ONNX Runtime's convolutions).
// Every (model, batch) measured on both partitions corrects the pair's ratio by its median, with
// the weight n / (n + 1).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "latency/evidence.h"

namespace hase::latency {

struct Partition {
  int cores = 1;
  double quota = 1;
};
// "cpu-2c-q0.6"; nullopt for any other name.
std::optional<Partition> ParsePartition(std::string_view name);

class PartitionLaw {
 public:
  struct Ratio {
    double log_factor = 0;  // time on `to` = time on `from` · exp(log_factor)
    double sigma = 0;
    int pairs = 0;
  };
  explicit PartitionLaw(const Evidence* evidence) : evidence_(evidence) {}  // outlives this
  // nullopt unless both are partitions.
  std::optional<Ratio> Between(const std::string& from, const std::string& to) const;

 private:
  const Evidence* evidence_;
  mutable std::map<std::pair<std::string, std::string>, Ratio> memo_;
};

}  // namespace hase::latency

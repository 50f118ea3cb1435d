// Slow-down of pairs of co-residents from slowdown.csv (docs/formats.md), and the plain law that
// stands in where no pair was measured: a tenant runs at the speed of its share.
//
// factor_a >= 1 is the time of model_a beside model_b over its solo time on the whole device. An
// empty model_b gives the factor of the share alone. More than two residents: the factors of the
// pairs, each relative to the share alone, are multiplied (no published set has triples; the
// product over-states contention once a resource is saturated).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "base/result.h"
#include "base/units.h"
#include "model/model_table.h"

namespace hase::cluster {

struct SlowdownKey {
  ModelId model;
  int64_t batch = 1;
  MilliShare share = kWholeDevice;
  auto operator<=>(const SlowdownKey&) const = default;
};

class SlowdownTable {
 public:
  SlowdownTable() = default;  // no pairs: the plain law everywhere
  // Rows of models that nobody interned are skipped. Models match by name.
  static Result<SlowdownTable> Parse(const std::string& name, std::string_view text,
                                     const model::ModelTable& models);

  // Factor of `self` beside `others`.
  double Factor(const SlowdownKey& self, std::span<const SlowdownKey> others) const;
  size_t size() const { return pairs_.size() + alone_.size(); }

 private:
  double Alone(const SlowdownKey& self) const;

  std::map<SlowdownKey, double> alone_;
  std::map<std::pair<SlowdownKey, SlowdownKey>, double> pairs_;
};

// max(1, 1 / share).
double ProportionalSlowdown(MilliShare share);

}  // namespace hase::cluster

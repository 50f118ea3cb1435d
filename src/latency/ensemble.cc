#include "latency/ensemble.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"

namespace hase::latency {
namespace {

constexpr double kSmallestSize = 0.004, kGreatestSize = 2.0;

const Quantiles* FindFirst(const std::map<std::string, Quantiles>& map,
                           std::span<const std::string> keys) {
  for (const auto& key : keys) {
    if (const auto it = map.find(key); it != map.end()) return &it->second;
  }
  return nullptr;
}

}  // namespace

int Ensemble::DeviceIndex(std::string_view catalogue_name) const {
  const auto it = std::ranges::find(devices, catalogue_name);
  return it == devices.end() ? -1 : static_cast<int>(it - devices.begin());
}

void Ensemble::PredictSeen(std::span<const float> rows, std::span<float> out) const {
  trees.Predict(rows, out);
}

void Ensemble::PredictUnseen(std::span<const float> rows, std::span<float> out,
                             std::vector<float>* experts, int except) const {
  trees.Predict(rows, out);
  const size_t count = out.size(), w = width(), shape = ShapeFeatureCount(family);
  const size_t known = devices.size();
  if (experts != nullptr) experts->assign(count * known, 0);
  // One known card: no split can look at its identity, and it would say the same again.
  if (known == 1) {
    if (experts != nullptr) std::ranges::copy(out, experts->begin());
    return;
  }
  std::vector<double> sum(count, 0);
  std::vector<float> other(count), changed(rows.begin(), rows.end());
  int used = 0;
  for (size_t d = 0; d < known; ++d) {
    if (static_cast<int>(d) == except) continue;
    for (size_t r = 0; r < count; ++r) {
      std::ranges::copy(identities[d], changed.begin() + static_cast<int64_t>(r * w + shape));
    }
    trees.Predict(changed, other);
    ++used;
    for (size_t r = 0; r < count; ++r) {
      sum[r] += other[r];
      if (experts != nullptr) (*experts)[r * known + d] = other[r];
    }
  }
  if (used == 0) return;
  for (size_t r = 0; r < count; ++r) {
    const double mean = sum[r] / used;
    if (experts != nullptr && except >= 0) {
      (*experts)[r * known + static_cast<size_t>(except)] = static_cast<float>(mean);
    }
    out[r] = static_cast<float>((out[r] + mean) / 2);
  }
}

void Ensemble::SizeOf(std::span<const float> rows, std::span<float> out) const {
  if (size.tree_count() == 0) {
    std::ranges::fill(out, 0.1F);
    return;
  }
  size.Predict(rows, out);
  for (float& v : out) {
    v = static_cast<float>(std::clamp<double>(std::exp(v), kSmallestSize, kGreatestSize));
  }
}

Ensemble::Bounds Ensemble::IntervalFor(double row_size, std::string_view device,
                                       model::OpClass op_class, model::Precision precision,
                                       bool is_seen) const {
  const std::string op(ToString(op_class));
  if (!is_seen) {
    const std::string keys[] = {op, ""};
    const Quantiles* q = FindFirst(unseen, keys);
    return q == nullptr ? Bounds{-0.5, 0.5} : Bounds{q->low, q->high};
  }
  const std::string cell = fmt::format("{}|{}", op, ToString(precision));
  const std::string keys[] = {fmt::format("{}|{}", device, cell), "|" + cell, ""};
  const Quantiles* q = FindFirst(seen, keys);
  return q == nullptr ? Bounds{-0.3, 0.3} : Bounds{q->low * row_size, q->high * row_size};
}

const Ensemble* ModelFile::Find(Family family, Convention convention) const {
  for (const auto& e : ensembles) {
    if (e.family == family && e.convention == convention) return &e;
  }
  return nullptr;
}

}  // namespace hase::latency

#include "latency/ensemble.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"

namespace hase::latency {
namespace {

constexpr double kOtherVendor = 10;
// Chosen on training rows of cards left out in turn (docs/predictor.md).
constexpr double kTwinTrust = 0.9, kTwinReach = 0.25;
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
  trees->Predict(rows, out);
}

int Ensemble::Nearest(const cluster::DeviceSpec& spec, model::Precision precision,
                      int except) const {
  std::pair<int, double> best{-1, 1e9};
  const auto far = [](double a, double b) {
    return std::abs(std::log(std::max(a, 1e-3) / std::max(b, 1e-3)));
  };
  for (size_t d = 0; d < specs.size(); ++d) {
    const int index = static_cast<int>(d);
    if (index == except) continue;
    const double distance = far(PeakTflops(specs[d], precision), PeakTflops(spec, precision)) +
                            far(specs[d].bandwidth_gb_s, spec.bandwidth_gb_s) +
                            (specs[d].vendor == spec.vendor ? 0 : kOtherVendor);
    if (distance < best.second) best = {index, distance};
  }
  return best.first;
}

void Ensemble::AddTwin(const model::Kernel& kernel, const cluster::DeviceSpec& spec,
                       TwinView& twins, int except, double session_place) const {
  if (specs.size() < 3) return;
  const auto& twin = specs[static_cast<size_t>(Nearest(spec, kernel.precision, except))];
  const auto values =
      ComputeFeatures(kernel, {.spec = &twin, .session_place = session_place}, convention).values;
  twins.rows.insert(twins.rows.end(), values.begin(), values.end());
  const auto balance = [&](const cluster::DeviceSpec& s) {
    return std::log(PeakTflops(s, kernel.precision) / std::max(s.bandwidth_gb_s, 1.0));
  };
  const double apart = std::abs(balance(twin) - balance(spec));
  const double kin = twin.vendor == spec.vendor ? 1 : 0;
  twins.trust.push_back(static_cast<float>(kin * kTwinTrust * std::exp(-apart / kTwinReach)));
}

void Ensemble::PredictUnseen(std::span<const float> rows, const TwinView& twins,
                             std::span<float> out, std::vector<float>* experts,
                             std::vector<float>* spread, int except) const {
  const size_t count = out.size(), w = width(), shape = ShapeFeatureCount(family);
  const size_t known = devices.size();
  if (experts != nullptr) experts->assign(count * known, 0);
  if (spread != nullptr) spread->assign(count, 0);
  if (count == 0) return;
  // One known card: no split can look at its identity, and it would say the same again.
  if (known == 1) {
    trees->Predict(rows, out);
    if (experts != nullptr) std::ranges::copy(out, experts->begin());
    return;
  }
  std::vector<std::vector<float>> endings = {
      {rows.begin() + static_cast<int64_t>(shape), rows.begin() + static_cast<int64_t>(w)}};
  std::vector<size_t> who;
  for (size_t d = 0; d < known; ++d) {
    if (static_cast<int>(d) == except) continue;
    endings.push_back(identities[d]);
    who.push_back(d);
  }
  std::vector<float> all(count * endings.size()), twin(twins.trust.size());
  trees->PredictEndings(rows, shape, endings, all);
  if (!twin.empty()) trees->Predict(twins.rows, twin);
  for (size_t r = 0; r < count; ++r) {
    const float* const said = all.data() + r * endings.size();
    double sum = 0;
    for (size_t i = 0; i < who.size(); ++i) {
      sum += said[i + 1];
      if (experts != nullptr) (*experts)[r * known + who[i]] = said[i + 1];
    }
    const double mean = who.empty() ? said[0] : sum / static_cast<double>(who.size());
    if (experts != nullptr && except >= 0) {
      (*experts)[r * known + static_cast<size_t>(except)] = static_cast<float>(mean);
    }
    double value = (said[0] + mean) / 2;
    if (!twin.empty()) value += twins.trust[r] * (twin[r] - value);
    out[r] = static_cast<float>(value);
    if (spread == nullptr) continue;
    double squares = std::pow(said[0] - value, 2) + std::pow(mean - value, 2);
    if (!twin.empty()) squares += std::pow(twin[r] - value, 2);
    (*spread)[r] = static_cast<float>(std::sqrt(squares));
  }
}

void Ensemble::SizeOf(std::span<const float> rows, std::span<float> out) const {
  if (size.empty()) {
    std::ranges::fill(out, 0.1F);
    return;
  }
  size->Predict(rows, out);
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
    return q == nullptr ? Bounds{-0.5, 0.5} : Bounds{q->low * row_size, q->high * row_size};
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

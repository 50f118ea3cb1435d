#include "latency/speed_factor.h"

#include <algorithm>
#include <cmath>

namespace hase::latency {
namespace {

constexpr size_t kWindow = 64;
constexpr double kForget = 0.9786;   // per job of the card: half after 32
constexpr double kCardPrior = 0.05;  // how much twins differ, log scale
constexpr double kBiasPrior = 0.20;  // how far a model's prediction may be off
constexpr double kHuber = 1.5;       // in units of the residuals' scale
constexpr double kFlagErrors = 3.5, kFlagLeast = 0.03;
constexpr double kScale = 0.08, kScaleJobs = 4;  // of residuals, before they say it themselves
constexpr size_t kFewCards = 16;                 // of a type: new cards are fitted with all others

double HuberWeight(double residual, double scale) {
  const double z = std::abs(residual) / (kHuber * scale);
  return z <= 1 ? 1 : 1 / z;
}

}  // namespace

void SpeedFactors::Observe(DeviceId device, DeviceTypeId type, ModelId model, double predicted_s,
                           double observed_s, double trust) {
  if (!(predicted_s > 0) || !(observed_s > 0) || !(trust > 0)) return;
  const auto [it, fresh] = cards_.try_emplace(device);
  CardState& card = it->second;
  if (fresh) {
    card.type = type;
    by_type_[type].push_back(device);
  }
  card.window.push_back({model, std::log(observed_s / predicted_s), std::min(trust, 1.0)});
  if (card.window.size() > kWindow) card.window.pop_front();
  ++card.jobs;
  // A full refit costs the type's windows; spread over as many jobs as there are cards, one job
  // costs a few windows whatever the size of the cluster.
  const size_t cards = by_type_[type].size();
  if (++since_refit_[type] >= static_cast<int>(cards) || (card.jobs < 4 && cards <= kFewCards)) {
    Refit(type);
    since_refit_[type] = 0;
  } else {
    FitCard(card, Scale({&card}));
  }
}

double SpeedFactors::Scale(const std::vector<CardState*>& cards) const {
  std::vector<double> absolute;
  for (const CardState* card : cards) {
    for (const auto& o : card->window) {
      const auto it = bias_.find({card->type, o.model});
      const double bias = it == bias_.end() ? 0 : it->second.value;
      absolute.push_back(std::abs(o.residual - bias - card->offset));
    }
  }
  const auto middle = absolute.begin() + static_cast<ptrdiff_t>(absolute.size() / 2);
  std::nth_element(absolute.begin(), middle, absolute.end());
  // One residual says nothing of their scale: it is as wide as usual until some have been seen.
  const double n = static_cast<double>(absolute.size()), own = 1.4826 * *middle;
  return std::clamp(std::sqrt((n * own * own + kScaleJobs * kScale * kScale) / (n + kScaleJobs)),
                    0.01, 0.3);
}

void SpeedFactors::FitCard(CardState& card, double scale) const {
  double age = 1, weights = 0, squares = 0, sum = 0;
  for (auto it = card.window.rbegin(); it != card.window.rend(); ++it, age *= kForget) {
    const auto b = bias_.find({card.type, it->model});
    const double bias = b == bias_.end() ? 0 : b->second.value;
    const double weight = it->trust * age * HuberWeight(it->residual - bias - card.offset, scale);
    weights += weight;
    squares += weight * weight;
    sum += weight * (it->residual - bias);
  }
  const double prior = scale * scale / (kCardPrior * kCardPrior);
  card.offset = sum / (weights + prior);
  // The models' biases have errors too, but twins that run the same models share them, and only
  // differences between twins are flagged: a tenth on top covers uneven mixes.
  card.standard_error = 1.1 * scale * std::sqrt(squares) / weights;
}

void SpeedFactors::FitBiases(const std::vector<CardState*>& cards, DeviceTypeId type,
                             double scale) {
  std::map<ModelId, std::pair<double, double>> sums;  // weighted residual, weight
  for (const CardState* card : cards) {
    double age = 1;
    for (auto it = card->window.rbegin(); it != card->window.rend(); ++it, age *= kForget) {
      const double rest = it->residual - card->offset;
      const double weight =
          it->trust * age * HuberWeight(rest - bias_[{type, it->model}].value, scale);
      auto& [sum, total] = sums[it->model];
      sum += weight * rest;
      total += weight;
    }
  }
  const double prior = scale * scale / (kBiasPrior * kBiasPrior);
  for (const auto& [model, s] : sums)
    bias_[{type, model}] = {s.first / (s.second + prior), s.second};
}

void SpeedFactors::Refit(DeviceTypeId type) {
  std::vector<CardState*> cards;
  for (const DeviceId id : by_type_[type]) cards.push_back(&cards_.at(id));
  double scale = Scale(cards);
  for (int round = 0; round < 8; ++round) {
    FitBiases(cards, type, scale);
    for (CardState* card : cards) FitCard(*card, scale);
    // What all cards share belongs to the models: only differences are the cards'.
    double mean = 0;
    for (const CardState* card : cards) mean += card->offset / static_cast<double>(cards.size());
    for (CardState* card : cards) card->offset -= mean;
    scale = Scale(cards);
  }
}

SpeedFactors::Card SpeedFactors::Of(DeviceId device) const {
  const auto it = cards_.find(device);
  if (it == cards_.end()) return {};
  const CardState& card = it->second;
  const auto& twins = by_type_.at(card.type);
  Card out{std::exp(card.offset), card.standard_error, false, card.jobs};
  if (twins.size() < 2 || card.jobs < 8) return out;
  double mean = 0, variance = card.standard_error * card.standard_error;
  const double others = static_cast<double>(twins.size() - 1);
  for (const DeviceId id : twins) {
    if (id == device) continue;
    const CardState& twin = cards_.at(id);
    if (twin.jobs < 8) return out;
    mean += twin.offset / others;
    variance += twin.standard_error * twin.standard_error / (others * others);
  }
  const double difference = std::abs(card.offset - mean);
  out.flagged = difference > kFlagLeast && difference > kFlagErrors * std::sqrt(variance);
  return out;
}

double SpeedFactors::DeviceFactor(DeviceId device) const {
  const auto it = cards_.find(device);
  if (it == cards_.end()) return 1;
  const CardState& card = it->second;
  double age = 1, weights = 0, sum = 0;
  for (auto seen = card.window.rbegin(); seen != card.window.rend(); ++seen, age *= kForget) {
    const auto bias = bias_.find({card.type, seen->model});
    if (bias != bias_.end()) sum += age * bias->second.value;
    weights += age;
  }
  const double n = static_cast<double>(card.window.size());
  return std::exp((card.offset + sum / weights) * n / (n + 1));
}

double SpeedFactors::ModelFactor(DeviceTypeId type, ModelId model) const {
  const auto it = bias_.find({type, model});
  return it == bias_.end() ? 1 : std::exp(it->second.value);
}

}  // namespace hase::latency

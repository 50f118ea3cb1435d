// SpeedFactors: what finished jobs teach. Twins of one device type are not equally fast, and the
// predictor is off by a factor that all runs of a (model, type) share. For each finished job
//
//   log(observed / predicted) = bias(type, model) + card(device) + noise
//
// is fitted over the last 64 jobs of every card by alternating robust means (Huber weights), each
// shrunk towards 0 by how wide it may be; older jobs count less (half after 32 of the card's). A
// card is flagged when it differs from its twins by more than 3 % and 3.5 standard errors.
// The engine keeps one of these and takes DeviceFactor() for every card.
//
// Left out: drift of a model's bias with the batch size.
// Source: Huber, Robust Statistics (1981), ch. 7 (M-estimates of additive models).
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "base/ids.h"

namespace hase::latency {

class SpeedFactors {
 public:
  struct Card {
    double factor = 1;          // observed / predicted: 1.1 = ten per cent slower than its twins
    double standard_error = 0;  // log scale
    bool flagged = false;
    int jobs = 0;  // ever seen
  };

  // One finished job, load time taken out, predicted with everything known when it started.
  // Ignored unless both times are positive. `trust` in (0, 1]: less for a run that shared its card,
  // whose slow-down has an error of its own.
  void Observe(DeviceId device, DeviceTypeId type, ModelId model, double predicted_s,
               double observed_s, double trust = 1);

  // A device never seen: factor 1.
  Card Of(DeviceId device) const;
  // exp(bias): what predictions of this model on this type should be multiplied by; 1 if unknown.
  double ModelFactor(DeviceTypeId type, ModelId model) const;
  // What predictions on this card should be multiplied by, whatever the model: the card's own
  // factor, and the biases of the models it ran lately as far as they have something in common.
  // Nothing seen: 1; after one job half of what it says.
  double DeviceFactor(DeviceId device) const;

 private:
  struct Observation {
    ModelId model;
    double residual, trust;
  };
  struct CardState {
    DeviceTypeId type;
    std::deque<Observation> window;  // oldest first
    double offset = 0, standard_error = 0.1;
    int jobs = 0;
  };
  struct Bias {
    double value = 0, weight = 0;
  };
  using BiasKey = std::pair<DeviceTypeId, ModelId>;

  void Refit(DeviceTypeId type);
  void FitCard(CardState& card, double scale) const;
  void FitBiases(const std::vector<CardState*>& cards, DeviceTypeId type, double scale);
  double Scale(const std::vector<CardState*>& cards) const;

  std::map<DeviceId, CardState> cards_;
  std::map<DeviceTypeId, std::vector<DeviceId>> by_type_;
  std::map<DeviceTypeId, int> since_refit_;
  std::map<BiasKey, Bias> bias_;
};

}  // namespace hase::latency

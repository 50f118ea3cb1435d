// Options of policy `hase`; the last block switches parts off, for the ablation table.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace hase::placement {

enum class Objective : uint8_t { kMakespan, kCompletion, kFair };

struct HaseOptions {
  Objective objective = Objective::kMakespan;
  int64_t candidates = 3;         // K of stage one, per device class
  int64_t reservation_depth = 4;  // 1 = EASY; 8 for completion: decisions/0163
  double probability = 0.95;      // of a promise: 1 − ε
  double overdue_s = 3600;        // W: after this wait a job comes first
  double ageing_s = 600;          // each such wait raises priority by one
  bool reject_late = false;       // deadline=reject: refuse what will miss its deadline
  bool sharing = true;            // co-locate where it pays
  double share_gain = 0.05;       // least predicted gain of throughput
  // Company is judged by throughput where the plan is at least so many times longer than it lasts.
  double share_depth = 2.5;

  bool backfill = true;      // off: nobody starts while one before him in the order waits
  bool reservation = true;   // off: no promises are made
  bool interference = true;  // off: company is believed to cost nothing
  bool quantile = true;      // off: plan and promise on means
  bool chunking = true;      // off: a divisible job runs in one piece
  bool polish = true;        // off: the list schedule stays as it is
  bool spec_only = false;    // estimates=spec: times scaled from data sheets (hase_ablation.h)

  static Result<HaseOptions> Parse(std::string_view text);
};

}  // namespace hase::placement

// Progress: how far a run is believed to be, between the reports that say so.
//
// Wall time is worth 1 / slowdown solo seconds; the credit is integrated over the
// piecewise-constant slow-downs of the run's co-residents and set back by each report (model
// loaded, chunk done). What finished chunks really took corrects the rest: with a log-error shared
// by all batches of prior variance s² and an observed mean log-error r of variance o², the
// posterior is
//   mean r·s²/(s²+o²), variance s²·o²/(s²+o²)   (normal prior, normal observation).
#pragma once

#include "base/units.h"
#include "latency/estimate.h"

namespace hase::execution {

struct Progress {
  // Fixed at the start.
  double batches = 0;  // that each slot runs
  double limit_s = 0;  // predicted p99 of the whole run's solo time, loading included
  // Now.
  bool loaded = false;
  double batches_done = 0;
  double slowdown = 1;       // predicted, with the residents of now
  bool ever_shared = false;  // was ever slowed down: the slow-down's own error counts too
  double credit_s = 0;       // solo seconds since the last report
  Nanos credit_at;
  // Over the finished chunks: predicted solo time, and what their wall time was worth.
  double work_s = 0, observed_s = 0;
  double base_s = 0;        // as work_s, on a card of exactly its type's speed
  double load_worth_s = 0;  // what loading's wall time was worth
  bool overrunning = false;

  void Advance(Nanos now);
  void NoteLoaded();
  void NoteChunk(double batches_of_chunk, const latency::Estimate& estimate, double speed);
  // Solo time left; never nothing while the run has not ended.
  latency::Spread Left(const latency::Estimate& estimate, double speed) const;
  // Log of observed / predicted after shrinkage, and its variance.
  struct Posterior {
    double mean = 0, variance = 0;
  };
  Posterior LogError(const latency::Estimate& estimate) const;
  // True once, when the run passes its p99.
  bool NoteOverrun();
};

}  // namespace hase::execution

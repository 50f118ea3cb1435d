// Response time of a batch server, as the planner predicts it.
//
// Requests arrive at random (Poisson) and wait in one queue. The server, whenever it is free and
// somebody waits, takes up to `batch` of them at once: it never idles to let a batch fill, because
// the next batch fills while this one runs (the fill (b-1)/λ and the queueing are one wait). A run
// of n takes D(n) = D(b)·(φ + (1-φ)·n/b).
//
// The number waiting at the end of a run is a Markov chain; its stationary law gives the law of
// wait plus run of a request, and thus any percentile of the *sum* — percentiles are never added.
// Times are in units of D(b), so that one table over (utilisation, batch, φ, percentile) serves
// every model, share and device; entries are computed when first asked for (Bailey 1954, bulk
// service). Left out: burstier arrivals than Poisson, variation of D (the planner's margin covers
// it).
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace hase::placement {

// A plan never loads a server more than this.
constexpr double kMaxUtilisation = 0.85;

struct BatchServer {
  double run_s = 0;  // D(b)
  double fixed = 1;  // φ: part of D(b) that a run of one still takes; D(1) = D(b)(φ + (1-φ)/b)
  int64_t batch = 1;
};

class BatchQueue {
 public:
  explicit BatchQueue(double percentile) : percentile_(percentile) {}

  // Response at the percentile / D(b), at utilisation rho = λ·D(b)/b in (0, 1).
  double Response(const BatchServer& server, double rho) const;
  // Seconds.
  double ResponseSeconds(const BatchServer& server, double rate_rps) const;
  // Greatest rate at which the percentile stays within slo_s; 0 = none does.
  double SustainableRate(const BatchServer& server, double slo_s) const;
  // Fraction of time the server runs anything at all, and the mean batch it takes.
  static double BusyFraction(const BatchServer& server, double rate_rps);
  static double MeanBatch(const BatchServer& server, double rate_rps);

  double percentile() const { return percentile_; }

 private:
  const std::vector<double>& Curve(int64_t batch, int fixed_step) const;
  double percentile_;
};

// The exact law behind the table (also what tests compare with the request-level world): response
// at `percentile` in units of D(b).
double BatchServerResponse(int64_t batch, double fixed, double rho, double percentile);

}  // namespace hase::placement

// Response time of a batch server, as the planner predicts it.
//
// Requests arrive at random (Poisson) and wait in one queue. The server, whenever it is free and
// somebody waits, takes up to `batch` of them at once: it never idles to let a batch fill, because
// the next batch fills while this one runs (the fill (b-1)/λ and the queueing are one wait). A run
// of n takes D(n) = D(b)·(f + (1-f)·((n-1)/(b-1))^κ): the first item, and a curve that bends down
// where small batches do not fill the device (κ < 1).
//
// The number waiting at the end of a run is a Markov chain; its stationary law gives the law of
// wait plus run of a request, and thus any percentile of the *sum* — percentiles are never added.
// Times are in units of D(b), so that one table over (utilisation, batch, f, κ, percentile) serves
// every model, share and device; entries are computed when first asked for (Bailey 1954, bulk
// service). Replicas that take requests in turn see them more evenly than at random; that only
// shortens waits and is counted where a response is foretold, not where a rate is promised. Left
// out: burstier arrivals than Poisson, variation of D (the planner's margin covers it).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace hase::placement {

// A plan never loads a server more than this.
constexpr double kMaxUtilisation = 0.85;

struct BatchServer {
  double run_s = 0;  // D(b)
  double first = 1;  // f: D(1) / D(b)
  int64_t batch = 1;
  double bend = 1;                 // κ
  double evenness = 1;             // squared variation of the gaps between arrivals: 1 = at random
  double Run(double items) const;  // D(items) / D(b)
};

// κ that best fits runs of some batches between 1 and `batch`: (items, seconds).
double BendOf(std::span<const std::pair<int64_t, double>> runs, int64_t batch, double run_s,
              double first);

// Responses in units of D(b), at the loads of the table: all that a server of given batch, first
// item and bend needs to be asked for its greatest rate.
constexpr size_t kLoads = 14;
using ResponseCurve = std::array<double, kLoads>;

class BatchQueue {
 public:
  explicit BatchQueue(double percentile) : percentile_(percentile) {}

  // Response at the percentile / D(b), at utilisation rho = λ·D(b)/b in (0, 1).
  double Response(const BatchServer& server, double rho) const;
  // Seconds.
  double ResponseSeconds(const BatchServer& server, double rate_rps) const;
  // Greatest rate at which the percentile stays within slo_s; 0 = none does.
  double SustainableRate(const BatchServer& server, double slo_s) const {
    return SustainableRate(CurveOf(server), server, slo_s);
  }
  // The same with CurveOf(server) computed once: the curve does not depend on run_s.
  ResponseCurve CurveOf(const BatchServer& server) const;
  static double SustainableRate(const ResponseCurve& curve, const BatchServer& server,
                                double slo_s);
  // Fraction of time the server runs anything at all, and the mean batch it takes.
  static double BusyFraction(const BatchServer& server, double rate_rps);
  static double MeanBatch(const BatchServer& server, double rate_rps);

  double percentile() const { return percentile_; }

 private:
  const ResponseCurve& Corner(int64_t batch, int first_step, int bend_step) const;
  double percentile_;
  mutable std::map<std::tuple<int64_t, int, int>, ResponseCurve> curves_;
};

// The percentile over all requests of a service whose replicas differ: of the mixture of their
// laws, by rate.
struct QueuePart {
  BatchServer server;
  double rate_rps = 0;
};
double MixtureResponseSeconds(std::span<const QueuePart> parts, double percentile);

// The exact law behind the table (also what tests compare with the request-level world): response
// at `percentile` in units of D(b).
double BatchServerResponse(const BatchServer& server, double rho, double percentile);

}  // namespace hase::placement

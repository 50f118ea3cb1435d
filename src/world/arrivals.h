// When requests arrive. Open loop: users do not wait for each other, so a slow server changes
// nothing about the arrivals. All patterns are seeded and give sorted times in seconds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "workload/job.h"

namespace hase::world {

enum class ArrivalPattern {
  kPoisson,  // independent
  kBursty,   // Poisson whose rate is three times higher in bursts that fill a tenth of the time
  kDiurnal,  // Poisson whose rate follows one sine period per run, between 0.4 and 1.6 of the mean
  kTrace,    // the gaps of a recorded trace, scaled to the rate
};
Result<ArrivalPattern> ParseArrivalPattern(std::string_view text);  // "poisson" …

// Arrivals in [0, duration_s) with `rate` (piecewise constant, the last point holds) as the local
// mean. `trace`: recorded times of any span, used by kTrace only, started at a seeded offset and
// wrapped around.
std::vector<double> Arrivals(ArrivalPattern pattern, std::span<const workload::RatePoint> rate,
                             double duration_s, Rng rng, std::span<const double> trace = {});

// Seconds since the first row of an Azure LLM inference trace (TIMESTAMP column; CC BY 4.0,
// Microsoft): an hour of real, bursty arrivals.
Result<std::vector<double>> ReadAzureTrace(const std::string& path);

}  // namespace hase::world

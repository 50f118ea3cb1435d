// Generators of job lists. A spec is "ARRIVALS[,key=value…]":
//
//   offline | poisson | bursty | diurnal
//   jobs=500  load=0.9  mean_s=60 (device seconds of the mean job)  tail=1.8 (Pareto exponent)
//   largest=10 (× mean)  exclusive=0.14  gang=0.08  cut=0  deadline=0.1  urgent=0.05
//   batches=1|4|8|16|32|64  models=resnet50|vgg16
//
// Sizes are Pareto, cut at `largest` times the mean. A job of w device seconds gets the inputs that
// take w seconds on the cluster's harmonic-mean device, by a reference speed handed in; `load` is
// the work arriving per second over the number of devices. The five families are equally likely,
// then the models within one. With the defaults 22 % of the jobs are exclusive or gangs (2, 4, 8),
// as the standard mix asks. Bursty: hyper-exponential gaps (nine in ten a fifth of the mean).
// Diurnal: rate 1 + 0.8 sin over three days squeezed into the trace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "workload/job.h"

namespace hase::workload {

enum class Arrivals : uint8_t { kOffline, kPoisson, kBursty, kDiurnal };

constexpr int64_t kMostJobs = 200'000;  // some seconds to draw, minutes to simulate

struct GeneratorSpec {
  Arrivals arrivals = Arrivals::kPoisson;
  int64_t jobs = 500;
  double load = 0.9;
  double mean_s = 60;
  double tail = 1.8;
  double largest = 10;
  // Fractions of the jobs.
  double exclusive = 0.14, gang = 0.08, cut = 0, deadline = 0.1, urgent = 0.05;
  std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64};
  std::vector<std::string> models;  // empty: the zoo's
};
Result<GeneratorSpec> ParseGeneratorSpec(std::string_view text);

// Seconds of one batch alone on a device type; nullopt: it cannot run there.
using SpeedTable =
    std::function<std::optional<double>(const std::string& model, DeviceTypeId, int64_t batch)>;

// The same seed gives the same jobs, whatever else is drawn elsewhere.
Result<std::vector<Job>> Generate(const GeneratorSpec& spec, uint64_t seed,
                                  const cluster::Cluster& cluster, const SpeedTable& speed);

// The 24 zoo models, by family.
const std::vector<std::vector<std::string>>& ModelFamilies();

}  // namespace hase::workload

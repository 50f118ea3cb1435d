// Correcting the share law by a few profile points: nine (batch, share, processes, time) rows per
// model bring every term's scale, the overlap of launch and device work and the scaling exponent to
// what this model does on this device. Maximum a posteriori in log space: residuals of 5 % weigh
// against priors on the corrections, so one point moves little and none moves nothing
// (Levenberg–Marquardt, numeric Jacobian; eight parameters). What that leaves at the points is
// spread around them by a Gaussian process over batch, share and processes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "latency/service_latency.h"

namespace hase::latency {

struct SurfacePoint {
  int64_t batch = 1;
  ShareGrant grant;
  double seconds = 0;  // measured, of one batch
};

// What is multiplied onto the base terms; serial work is per item. The default corrects nothing.
struct Correction {
  double compute = 1, fixed = 1, dram = 1, launch = 1;
  double serial_per_item_s = 0;
  ShareLaw law;
  int points = 0;       // that it was fitted to
  double residual = 0;  // root mean square of what the law leaves at the points, log scale
  struct Near {
    double log_batch = 0;
    ProfiledNear point;
  };
  std::vector<Near> near = {};
  ServiceTerms Apply(ServiceTerms terms, int64_t batch) const;
};

// How far (log standard deviation) each part may lie from the base.
struct CorrectionPrior {
  double compute = 0.4, fixed = 0.4, dram = 0.4, launch = 0.4;
  double serial = 2, overlap = 0.4, scaling = 0.1, crowding = 0.5;
  double serial_per_item_s = 1e-6;  // centre of the serial term
  ShareLaw law;
};

using TermCurve = std::function<ServiceTerms(int64_t batch)>;
Correction FitCorrection(const TermCurve& base, int sm_count, std::span<const SurfacePoint> points,
                         const CorrectionPrior& prior);

// The base for a model of which nothing at all is known: orders of magnitude of an image model on a
// large GPU, with priors as wide. Used where neither kernels nor an estimate exist.
ServiceTerms UnknownModel(int64_t batch);
CorrectionPrior UnknownModelPrior();

}  // namespace hase::latency

// The exact optimum with sharing, for a handful of jobs: every set of jobs on every device, every
// order and every share in quarters, by exhaustive search over events.
//
// Schedules: all jobs are there at 0 and whole (no cutting, no gangs, no moving); work starts at 0
// or when some job on the device ends, at one to four quarters of it, and keeps its share to its
// end; a device may wait for an end with room left, but not stand idle while a job of its own
// waits. That is what policies do, which act on events. Devices do not disturb each other, so the
// makespan is the least over all divisions of the jobs of the greatest of the devices' least times.
//
// The cost is exponential in jobs (about a millisecond for four on one device, ten for five); more
// than kMostSharedJobs are refused.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hase::placement {

inline constexpr size_t kMostSharedJobs = 6;

struct Tenure {
  size_t job = 0;
  int quarters = 4;  // 1 … 4 of the device
};

// What the world does with jobs on one device; never a predictor.
class SharedWorld {
 public:
  virtual ~SharedWorld() = default;
  // Seconds the job takes alone on the whole device, loading included; infinite: inadmissible.
  virtual double SoloSeconds(size_t device, size_t job) const = 0;
  // Solo seconds done per second, by tenure (each > 0); empty: they may not be there together.
  // Called with at most four quarters in all.
  virtual std::vector<double> Rates(size_t device, std::span<const Tenure> together) const = 0;
};

// nullopt: more than kMostSharedJobs jobs, or a job that no device admits.
std::optional<double> OptimalSharedMakespan(size_t devices, size_t jobs, const SharedWorld& world);

}  // namespace hase::placement

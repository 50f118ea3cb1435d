// Measuring the calibration sweep on a device (apps/calibration_sweep.h). `hase calibrate` does it
// when asked; `hase bench`, `profile` and `demo` do the basic sweep, some seconds, where a device
// has none yet.
#pragma once

#include <cstdint>
#include <string>

#include "apps/cli/machine.h"
#include "base/result.h"

namespace hase::cli {

// The graphs are written to the state folder, measured into the store and deleted again. Seed 0 is
// the basic sweep, others are random graphs. Warns on stderr if strangers wanted the device's cores
// meanwhile.
Status MeasureSweep(const Machine& machine, const cluster::Device& device, uint64_t seed,
                    const std::string& state, latency::SampleStore& store);

// The basic sweep, unless the device has samples of one. True if it was measured now.
Result<bool> EnsureCalibrated(const Machine& machine, const cluster::Device& device,
                              const std::string& state, latency::SampleStore& store);

}  // namespace hase::cli

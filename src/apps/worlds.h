// The predictor and the world of a simulation, made from files: the one place where what is
// predicted and what is true are both known.
#pragma once

#include <memory>

#include "apps/sim_inputs.h"
#include "latency/estimator.h"
#include "latency/sample.h"
#include "workload/generator.h"
#include "world/law_world.h"
#include "world/table_world.h"
#include "world/world.h"

namespace hase::apps {

// The shipped predictor for the models and device types of `sim`. `samples`: what was measured
// here.
Result<std::unique_ptr<latency::Estimator>> MakePredictor(
    const execution::SimCase& sim, std::vector<latency::Sample> samples = {});

// W1, W2 or W3 (`draws` its cards); borrows sim.cluster, sim.estimator (W2) and sim.library (W3).
Result<std::unique_ptr<world::World>> MakeWorld(
    const SimFlags& flags, uint64_t seed, const execution::SimCase& sim,
    world::CardDraws draws = world::CardDraws::kInOrder);

// The world in which every prediction of sim.estimator is exact.
std::unique_ptr<world::TableWorld> ExactWorld(const execution::SimCase& sim);

// Solo seconds per input by (model name, device type, batch), for sizing generated jobs: a fixed
// reference that no policy and no world changes.
Result<workload::SpeedTable> GeneratorSpeeds(const SimFlags& flags, const execution::SimCase& sim);

// The models of `sim` with their kernels, under the same ids.
Result<std::unique_ptr<model::ModelLibrary>> MakeLibrary(const execution::SimCase& sim);

}  // namespace hase::apps

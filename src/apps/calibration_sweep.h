// The calibration sweep: kernels of many geometries, independent of any model, laid side by side in
// synthetic ONNX graphs. Profiled like a model, they fill the space between the kernels of the
// models a user happens to have profiled, which is what predicting a model of a new family needs.
//
// The basic sweep is ten small graphs of sixty kernels in all: what convolutions of other
// models do not teach (depthwise, free batch norms, pools, copies, elementwise work, matrices), of
// sizes that a core's cache holds and that none does. Random graphs come on top of it:
//
// Each branch of those starts at an input of its own, so its activations are as warm and its
// weights as cold as in a real model. Geometries are drawn log-uniformly from what published CNNs
// use (windows 1, 3, 5, 7; depthwise and dense; 7 to 320 pixels; 8 to 2048 channels), at most 0.6
// GFLOP each.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace hase::apps {

constexpr int kBasicGraphs = 10;
// The file's bytes; `which` from 0.
Result<std::string> BasicCalibrationGraph(int which);
// The file's bytes. The same seed gives the same graph.
Result<std::string> CalibrationGraph(uint64_t seed, int branches);

}  // namespace hase::apps

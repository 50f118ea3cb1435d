// The tiny ONNX models that the micro-benchmarks run, written byte by byte: a handful of protobuf
// fields is all they need, so no ONNX library is. Opset 13, IR 7.
//
// Every input's first dimension is the symbolic batch "N"; weights are constants, as in real
// models, so that ONNX Runtime packs them ahead of the run.
#pragma once

#include <string>

#include "cluster/micro_benchmarks.h"

namespace hase::execution {

// For kLaunch, `repeat` nodes follow one another: the difference between two lengths is what one
// more node costs. Other kinds ignore it.
std::string BenchGraph(const cluster::MicroBenchmark& bench, int repeat = 1);

}  // namespace hase::execution

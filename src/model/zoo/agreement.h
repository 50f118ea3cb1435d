// For tests: whether the fusion rules of ort-cpu give the kernels that ONNX Runtime itself runs.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "model/graph.h"

namespace hase::model {

// Compares, node by node, our lowering of `basic` with the graph that ONNX Runtime saves at full
// optimisation of `model` (into `optimised`), the dimensions given. Differences fail the test.
void ExpectKernelsOfOnnxRuntime(const Graph& basic, const std::filesystem::path& model,
                                const std::filesystem::path& optimised,
                                std::vector<std::pair<std::string, int64_t>> dimensions);

}  // namespace hase::model

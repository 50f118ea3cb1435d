// *.kernels.json: a Graph as text (docs/formats.md, "Kernel lists"). Strict: an unknown key, a
// wrong version or an index out of range is an error that names file and place; keys that start
// with x_ are ignored.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/graph.h"

namespace hase::model {

constexpr int kKernelsVersion = 1;

Result<Graph> ReadKernelsJson(std::string_view text, const std::string& name);
// One tensor and one node per line, so that a change reads well as a diff.
std::string WriteKernelsJson(const Graph& graph);

// "float32[N,3,224,224]", "const int64[2]", "float32[197N+1]": a tensor's text form.
std::string FormatTensor(const Tensor& tensor);
std::optional<Tensor> ParseTensor(std::string_view text);

}  // namespace hase::model

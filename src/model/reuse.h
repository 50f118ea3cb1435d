// Reuse: how much memory a run touches between two uses of the same bytes, per kernel. What a
// kernel reads, and the buffer it writes, are in a cache if less than the cache holds was touched
// since; a copy into a buffer that has left the caches takes three times as long as one into a
// buffer that has not.
//
// A least-recently-used stack is simulated over addresses: buffers where the arena puts them
// (buffer_plan.h), weights one after another, each kernel walking its operands side by side, and
// the run twice, since a run begins with what the one before left. Of CPUs with ONNX Runtime's
// arena only; no device is known here, so distances are bytes, not hits.
//
// Left out: what a kernel touches besides its operands, sets and ways, prefetching, pages.
#pragma once

#include <vector>

#include "model/buffer_plan.h"
#include "model/graph.h"

namespace hase::model {

// Distances below and above these count as these: no core's caches are smaller or larger.
constexpr int64_t kLeastReuse = int64_t{1} << 19, kMostReuse = int64_t{1} << 26;

// Of every node, silent ones too. `plan` is made, of this graph.
std::vector<Reuse> ReuseOf(const Graph& graph, const BufferPlan& plan, Precision precision,
                           int64_t batch);

}  // namespace hase::model

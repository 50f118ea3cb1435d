// From a (fused) Graph to ModelKernels at one batch: every shape a number, every kernel with its
// work, traffic and implicit GEMM, and the model's memory terms.
//
// Counting: docs/formats.md. Memory: liveness over the execution order; an element-wise kernel
// writes over an input that nobody reads later, a reshape is free. Left out: the arena's rounding
// and fragmentation (latency learns those from measurements).
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "model/kernel.h"

namespace hase::model {

// `precision` is what the model's float32 tensors are computed in; tensors of other types keep
// theirs. Usage error for a batch the file does not allow; Invalid if a count overflows 64 bits
// (naming the node).
Result<ModelKernels> Resolve(const Graph& graph, Runtime runtime, Precision precision,
                             int64_t batch);

// The parts of Resolve. One node's kernel; the model's memory.
Result<Kernel> ResolveKernel(const Graph& graph, const Node& node, Precision precision,
                             int64_t batch);
Result<MemoryTerms> ResolveMemory(const Graph& graph, Runtime runtime, Precision precision,
                                  int64_t batch);
// Bytes of a tensor at this batch; nullopt on overflow.
std::optional<int64_t> TensorBytes(const Tensor& tensor, Precision precision, int64_t batch);

}  // namespace hase::model

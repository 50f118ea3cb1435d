// ONNX Runtime's blocked layout on CPUs ("NCHWc"): at full optimisation it moves convolutions,
// pooling and what stands between them into a layout of channel blocks, with reorder kernels at the
// borders, and folds residual sums and activations into convolutions on the way.
#pragma once

#include "model/graph.h"

namespace hase::model {

// `block`: channels per block: 16 with AVX-512 or NEON, 8 with AVX2.
Graph ToNchwc(const Graph& graph, int64_t block);

}  // namespace hase::model

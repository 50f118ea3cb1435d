// ONNX Runtime's blocked layout on CPUs ("NCHWc"): at full optimisation it moves convolutions,
// pooling and what stands between them into a layout of channel blocks, with reorder kernels at the
// borders, and folds residual sums and activations into convolutions on the way.
#pragma once

#include "model/graph.h"

namespace hase::model {

Graph ToNchwc(const Graph& graph);

}  // namespace hase::model

#include "model/nchwc.h"

namespace hase::model {

Graph ToNchwc(const Graph& graph) { return graph; }

}  // namespace hase::model

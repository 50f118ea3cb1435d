// --dim NAME=SIZE, several times: values of an ONNX file's symbolic dimensions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/library.h"

namespace hase::cli {

Result<model::Dimensions> ParseDimensions(const std::vector<std::string>& texts);

}  // namespace hase::cli

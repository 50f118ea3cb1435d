// Where a model's ONNX file is: the file itself, or a zoo model written on demand.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace hase::cli {

// A path that ends in .onnx is itself. A zoo model is built into `state`/models once (seconds) and
// taken from there afterwards. Anything else is an error.
Result<std::filesystem::path> ModelFile(const std::string& model,
                                        const std::filesystem::path& state);

}  // namespace hase::cli

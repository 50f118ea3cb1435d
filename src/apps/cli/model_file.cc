#include "apps/cli/model_file.h"

#include <fmt/core.h>

#include "base/file.h"
#include "model/zoo/zoo.h"

namespace hase::cli {

Result<std::filesystem::path> ModelFile(const std::string& model,
                                        const std::filesystem::path& state) {
  if (model.ends_with(".onnx")) return std::filesystem::path(model);
  const auto* entry = model::zoo::FindZooModel(model);
  if (!entry) {
    return Usage(
        fmt::format("'{}' is neither an .onnx file nor a zoo model (hase zoo list)", model));
  }
  const auto path = state / "models" / (model + ".onnx");
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  std::filesystem::create_directories(path.parent_path(), error);
  HASE_ASSIGN_OR_RETURN(const std::string bytes, model::zoo::BuildOnnx(*entry));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(path, bytes));
  return path;
}

}  // namespace hase::cli

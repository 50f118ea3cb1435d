// The one include of ONNX's protobuf, and what file.cc and check.cc share.
#pragma once

#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <string>

#include "base/result.h"

namespace hase::model::onnx_file {

// All checks of OnnxFile::Read on a parsed model; `path` for messages and for the folder in which
// external weights must lie.
Status CheckModel(const onnx::ModelProto& model, const std::filesystem::path& path);
int OpsetOf(const onnx::ModelProto& model);  // of the default domain; 0 if none is stated

}  // namespace hase::model::onnx_file

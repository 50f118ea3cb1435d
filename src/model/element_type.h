// ElementType: what a tensor holds, as ONNX names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hase::model {

enum class ElementType : uint8_t {
  kFloat,
  kHalf,
  kBfloat16,
  kDouble,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kBool,
  kString,
  kOther
};
constexpr int kElementTypeCount = 15;

std::string_view ToString(ElementType type);  // "float32", "int64" …
std::optional<ElementType> ParseElementType(std::string_view text);
int BytesOf(ElementType type);      // 0 for strings and other
bool IsFloating(ElementType type);  // float32, float16, bfloat16, float64

// Numbers of onnx.TensorProto.DataType, which ONNX Runtime's C API shares.
ElementType FromOnnx(int onnx_data_type);
int ToOnnx(ElementType type);

}  // namespace hase::model

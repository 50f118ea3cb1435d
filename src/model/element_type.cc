#include "model/element_type.h"

#include <algorithm>
#include <array>

namespace hase::model {
namespace {

struct Row {
  ElementType type;
  std::string_view name;
  int bytes;
  int onnx;  // onnx.proto, TensorProto.DataType
};
constexpr std::array kRows = {
    Row{ElementType::kFloat, "float32", 4, 1},      Row{ElementType::kHalf, "float16", 2, 10},
    Row{ElementType::kBfloat16, "bfloat16", 2, 16}, Row{ElementType::kDouble, "float64", 8, 11},
    Row{ElementType::kInt8, "int8", 1, 3},          Row{ElementType::kUint8, "uint8", 1, 2},
    Row{ElementType::kInt16, "int16", 2, 5},        Row{ElementType::kUint16, "uint16", 2, 4},
    Row{ElementType::kInt32, "int32", 4, 6},        Row{ElementType::kUint32, "uint32", 4, 12},
    Row{ElementType::kInt64, "int64", 8, 7},        Row{ElementType::kUint64, "uint64", 8, 13},
    Row{ElementType::kBool, "bool", 1, 9},          Row{ElementType::kString, "string", 0, 8},
    Row{ElementType::kOther, "other", 0, 0},
};
static_assert(kRows.size() == kElementTypeCount);
const Row& RowOf(ElementType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

std::string_view ToString(ElementType type) { return RowOf(type).name; }
int BytesOf(ElementType type) { return RowOf(type).bytes; }
int ToOnnx(ElementType type) { return RowOf(type).onnx; }

std::optional<ElementType> ParseElementType(std::string_view text) {
  const auto* row = std::ranges::find(kRows, text, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->type;
}

bool IsFloating(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kHalf ||
         type == ElementType::kBfloat16 || type == ElementType::kDouble;
}

ElementType FromOnnx(int onnx_data_type) {
  const auto* row = std::ranges::find(kRows, onnx_data_type, &Row::onnx);
  return row == kRows.end() ? ElementType::kOther : row->type;
}

}  // namespace hase::model

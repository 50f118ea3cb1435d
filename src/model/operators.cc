#include "model/operators.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <unordered_map>

namespace hase::model {
namespace {

using enum OpClass;
using enum Work;
using enum Memory;

// Weights of softmax, normalisations and quantisation are operations per element of the textbook
// formula (softmax: subtract, exponential, sum, divide); they never decide a latency, since these
// kernels are bound by memory.
constexpr Operator kOperators[] = {
    {"Conv", kConv, kConvolution},
    {"FusedConv", kConv, kConvolution},
    {"ConvInteger", kConv, kConvolution},
    {"QLinearConv", kConv, kConvolution},
    {"ConvTranspose", kConv, kTransposedConvolution},
    {"Gemm", kGemm, kMatMul},
    {"MatMul", kGemm, kMatMul},
    {"FusedMatMul", kGemm, kMatMul},
    {"FusedGemm", kGemm, kMatMul},
    {"MatMulInteger", kGemm, kMatMul},
    {"QLinearMatMul", kGemm, kMatMul},
    {"DynamicQuantizeMatMul", kGemm, kMatMul},
    {"LSTM", kGemm, kRecurrent, 4},
    {"GRU", kGemm, kRecurrent, 3},
    {"RNN", kGemm, kRecurrent, 1},
    {"Attention", kAttention, kDotProductAttention},
    {"MultiHeadAttention", kAttention, kDotProductAttention},
    {"GroupQueryAttention", kAttention, kDotProductAttention},
    {"MaxPool", kPool, kWindow},
    {"AveragePool", kPool, kWindow},
    {"LpPool", kPool, kWindow},
    {"GlobalAveragePool", kGlobalPool, kPerInput},
    {"GlobalMaxPool", kGlobalPool, kPerInput},
    {"BatchNormalization", kBatchNorm, kPerOutput, 2, kPlain},
    {"Softmax", kSoftmax, kPerOutput, 4, kInPlace},
    {"LogSoftmax", kSoftmax, kPerOutput, 4, kInPlace},
    {"Hardmax", kSoftmax, kPerOutput, 1},
    {"BiasSoftmax", kSoftmax, kPerOutput, 5, kInPlace},
    {"LayerNormalization", kLayerNorm, kPerInput, 6},
    {"SimplifiedLayerNormalization", kLayerNorm, kPerInput, 4},
    {"SkipLayerNormalization", kLayerNorm, kPerInput, 7},
    {"SkipSimplifiedLayerNormalization", kLayerNorm, kPerInput, 5},
    {"EmbedLayerNormalization", kLayerNorm, kPerOutput, 8},
    {"InstanceNormalization", kLayerNorm, kPerInput, 6},
    {"GroupNormalization", kLayerNorm, kPerInput, 6},
    {"GroupNorm", kLayerNorm, kPerInput, 6},
    {"LpNormalization", kLayerNorm, kPerInput, 3},
    {"LRN", kLayerNorm, kPerInput, 8},
    {"Resize", kResize, kPerOutput},
    {"Upsample", kResize, kPerOutput},
    {"GridSample", kResize, kPerOutput, 8},
};

constexpr std::string_view kInPlaceUnary[] = {"Abs",
                                              "Acos",
                                              "Acosh",
                                              "Asin",
                                              "Asinh",
                                              "Atan",
                                              "Atanh",
                                              "BitwiseNot",
                                              "Ceil",
                                              "Cos",
                                              "Cosh",
                                              "Erf",
                                              "Exp",
                                              "Floor",
                                              "IsInf",
                                              "IsNaN",
                                              "Log",
                                              "Neg",
                                              "Not",
                                              "Round",
                                              "Sign",
                                              "Sin",
                                              "Sinh",
                                              "Sqrt",
                                              "Tan",
                                              "Reciprocal",
                                              "Cast",
                                              "CastLike",
                                              "QuantizeLinear",
                                              "DequantizeLinear"};
constexpr std::string_view kBinaries[] = {
    "Add",        "Sub",         "Mul",       "Div",
    "Pow",        "Max",         "Min",       "Mod",
    "And",        "Or",          "Xor",       "Equal",
    "Sum",        "Mean",        "Greater",   "GreaterOrEqual",
    "Less",       "LessOrEqual", "BitShift",  "Where",
    "BitwiseAnd", "BitwiseOr",   "BitwiseXor"};
constexpr std::string_view kActivations[] = {
    "Relu",  "LeakyRelu", "PRelu",    "Sigmoid", "Tanh",     "HardSigmoid", "HardSwish",
    "Elu",   "Selu",      "Celu",     "Gelu",    "FastGelu", "QuickGelu",   "BiasGelu",
    "Clip",  "Softplus",  "Softsign", "Mish",    "Silu",     "Swish",       "ThresholdedRelu",
    "Shrink"};
constexpr std::string_view kMovers[] = {"Concat",          "Split",
                                        "Transpose",       "Pad",
                                        "Expand",          "Tile",
                                        "DepthToSpace",    "SpaceToDepth",
                                        "ScatterND",       "ScatterElements",
                                        "Scatter",         "OneHot",
                                        "Range",           "ConstantOfShape",
                                        "NonZero",         "Compress",
                                        "Trilu",           "EyeLike",
                                        "ReverseSequence", "ReorderInput",
                                        "ReorderOutput",   "MemcpyFromHost",
                                        "MemcpyToHost",    "Constant"};
constexpr std::string_view kPickers[] = {"Gather", "GatherElements", "GatherND", "Slice"};
constexpr std::string_view kAliases[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity",
                                         "Dropout", "Shape",   "Size",    "View"};
constexpr std::string_view kReductions[] = {
    "ReduceMean", "ReduceSum", "ReduceMax",    "ReduceMin",       "ReduceProd",
    "ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    "ArgMax",     "ArgMin",    "TopK",         "CumSum",          "DynamicQuantizeLinear"};

std::unordered_map<std::string_view, Operator> BuildTable() {
  std::unordered_map<std::string_view, Operator> table;
  const auto add = [&](std::string_view name, Operator row) {
    row.name = name;
    table.emplace(name, row);
  };
  for (const auto& row : kOperators) add(row.name, row);
  for (const auto name : kInPlaceUnary) add(name, {"", kUnary, kPerOutput, 1, kInPlace});
  for (const auto name : kBinaries) add(name, {"", kBinary, kPerOutput, 1, kInPlace});
  for (const auto name : kActivations) add(name, {"", kActivation, kPerOutput, 1, kInPlace});
  for (const auto name : kMovers) add(name, {"", kDataMovement, kNone, 0, kPlain});
  for (const auto name : kPickers) add(name, {"", kDataMovement, kNone, 0, kPick});
  for (const auto name : kAliases) add(name, {"", kDataMovement, kNone, 0, kAlias});
  for (const auto name : kReductions) add(name, {"", kReduce, kPerInput, 1, kPlain});
  return table;
}

}  // namespace

const Operator& FindOperator(std::string_view name) {
  static const auto table = BuildTable();
  static constexpr Operator unknown{"", kOther, kPerOutput, 1, kPlain};
  const auto it = table.find(name);
  return it == table.end() ? unknown : it->second;
}

std::string ActivationName(std::string_view op) {
  if (FindOperator(op).op_class != kActivation) return "";
  std::string name(op);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

}  // namespace hase::model

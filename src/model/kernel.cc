#include "model/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>

namespace hase::model {
namespace {

constexpr std::string_view kOpClasses[] = {
    "conv",       "depthwise_conv", "grouped_conv", "gemm",       "pool",    "global_pool",
    "batch_norm", "unary",          "binary",       "activation", "softmax", "layer_norm",
    "attention",  "data_movement",  "resize",       "reduce",     "other"};
static_assert(std::size(kOpClasses) == kOpClassCount);
constexpr std::string_view kPrecisions[] = {"fp32", "tf32", "fp16", "bf16", "int8"};
constexpr std::string_view kRuntimes[] = {"ort-cpu", "ort-cuda", "tensorrt", "pytorch"};

template <typename T>
Result<T> ParseName(std::string_view text, std::span<const std::string_view> names,
                    std::string_view what) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<T>(i);
  }
  return Invalid(fmt::format("unknown {} '{}' (known: {})", what, text, fmt::join(names, ", ")));
}

}  // namespace

std::string_view ToString(OpClass c) { return kOpClasses[static_cast<size_t>(c)]; }
std::string_view ToString(Precision p) { return kPrecisions[static_cast<size_t>(p)]; }
std::string_view ToString(Runtime r) { return kRuntimes[static_cast<size_t>(r)]; }
Result<OpClass> ParseOpClass(std::string_view text) {
  return ParseName<OpClass>(text, kOpClasses, "op class");
}
Result<Precision> ParsePrecision(std::string_view text) {
  return ParseName<Precision>(text, kPrecisions, "precision");
}
Result<Runtime> ParseRuntime(std::string_view text) {
  return ParseName<Runtime>(text, kRuntimes, "runtime");
}

int BytesPerElement(Precision p) {
  switch (p) {
    case Precision::kFp32:
    case Precision::kTf32:
      return 4;
    case Precision::kFp16:
    case Precision::kBf16:
      return 2;
    case Precision::kInt8:
      return 1;
  }
  return 4;
}

std::optional<int64_t> ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

double Kernel::intensity() const {
  return bytes() > 0 ? static_cast<double>(flops) / static_cast<double>(bytes()) : 0;
}

double Kernel::algorithm_gain() const {
  const bool winograd = op_class == OpClass::kConv && window.kernel == std::array{3, 3} &&
                        window.stride == std::array{1, 1} && window.dilation == std::array{1, 1} &&
                        window.groups == 1;
  return winograd ? 2.25 : 1.0;
}

// Asked for every kernel of every model: plain appends, no format strings.
std::string GeometryKey(const Kernel& k, bool with_batch) {
  std::string key;
  key.reserve(160);
  const auto number = [&](int64_t value, char after) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    key.append(digits, end);
    if (after != 0) key += after;
  };
  const auto add = [&](const Shape& shape) {
    key += '|';
    for (size_t i = with_batch ? 0 : 1; i < shape.size(); ++i) number(shape[i], ',');
  };
  const auto window = [&](const auto& values) {
    key += '|';
    for (size_t i = 0; i < values.size(); ++i) number(values[i], i + 1 < values.size() ? 'x' : 0);
  };
  key.append(k.op).append("|").append(ToString(k.op_class)).append("|");
  key.append(ToString(k.precision)).append(k.fused_add ? "|add|" : "||").append(k.activation);
  for (const auto& input : k.inputs) add(input);
  add(k.output);
  window(k.window.kernel);
  window(k.window.stride);
  window(k.window.pad);
  window(k.window.dilation);
  key += '|';
  number(k.window.groups, 0);
  return key;
}

int64_t ModelKernels::total_flops() const {
  int64_t sum = 0;
  for (const auto& kernel : kernels) sum += kernel.flops;
  return sum;
}

}  // namespace hase::model

// NeuSight (convolution, matrix products, elementwise), DeepBench, and the GEMM tables of LLM
// servers.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "latency/data/readers.h"
#include "latency/data/shapes.h"

namespace hase::latency {

using model::Precision;
using model::Runtime;

namespace {

constexpr std::string_view kNeuSight = "neusight";

// The file keeps the order in which each card was measured, and what the host did around a call
// grew with the number of shapes it had met (60 us at first, 0.3 to 0.8 ms at the end), so the
// place among the card's rows is part of how a row was measured.
Status ReadNeuSightConv(SetFile& file) {
  std::map<std::string_view, std::pair<double, double>> session;  // met so far, of all
  for (size_t i = 0; i < file.rows(); ++i) ++session[file.Text(i, "gpu")].second;
  for (size_t i = 0; i < file.rows(); ++i) {
    auto& [met, all] = session[file.Text(i, "gpu")];
    const double place = met++ / all;
    const int64_t size = file.Integer(i, "in_hw");
    ConvShape shape{.batch = file.Integer(i, "batch"),
                    .in_channels = file.Integer(i, "in_ch"),
                    .height = size,
                    .width = size,
                    .out_channels = file.Integer(i, "out_ch")};
    const auto kernel = static_cast<int32_t>(file.Integer(i, "kernel"));
    const auto stride = static_cast<int32_t>(file.Integer(i, "stride"));
    const auto pad = static_cast<int32_t>(file.Integer(i, "pad"));
    shape.window.kernel = {kernel, kernel};
    shape.window.stride = {stride, stride};
    shape.window.pad = {pad, pad, pad, pad};
    HASE_RETURN_IF_ERROR(file.Emit(i, ConvKernel(shape), file.Text(i, "gpu"),
                                   Convention::kPyTorchEvents, Runtime::kPyTorch,
                                   1e3 * file.Number(i, "latency_ms"), 1, place));
  }
  return {};
}

// bmm: (B, M, N) × (B, N, K). linear: input (B, M, N), weight N -> K with bias; rows = B · M.
Status ReadNeuSightGemm(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    const int64_t b = file.Integer(i, "B"), m = file.Integer(i, "M");
    const bool linear = file.Text(i, "op") == "linear";
    auto kernel = GemmKernel({.batch = linear ? 1 : b,
                              .m = linear ? b * m : m,
                              .n = file.Integer(i, "K"),
                              .k = file.Integer(i, "N"),
                              .weights = linear,
                              .bias = linear});
    HASE_RETURN_IF_ERROR(file.Emit(i, std::move(kernel), file.Text(i, "gpu"),
                                   Convention::kPyTorchEvents, Runtime::kPyTorch,
                                   1e3 * file.Number(i, "latency_ms")));
  }
  return {};
}

struct OpName {
  std::string_view theirs, onnx;
  bool scalar;
};
constexpr std::array<OpName, 13> kElementwise = {{{"add", "Add", false},
                                                  {"mul", "Mul", false},
                                                  {"div", "Div", false},
                                                  {"pow", "Pow", false},
                                                  {"addu", "Add", true},
                                                  {"mulu", "Mul", true},
                                                  {"divu", "Div", true},
                                                  {"powu", "Pow", true},
                                                  {"relu", "Relu", false},
                                                  {"gelu", "Gelu", false},
                                                  {"tanh", "Tanh", false},
                                                  {"softmax", "Softmax", false},
                                                  {"ln", "LayerNormalization", false}}};

Status ReadNeuSightElementwise(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    const auto op = file.Text(i, "op");
    const auto* name = std::ranges::find(kElementwise, op, &OpName::theirs);
    if (name == kElementwise.end()) {
      return Invalid(std::string(kNeuSight) + ": unknown elementwise op '" + std::string(op) + "'");
    }
    auto kernel = ElementwiseKernel(std::string(name->onnx), file.Integer(i, "B"),
                                    file.Integer(i, "H"), name->scalar, Precision::kFp32);
    HASE_RETURN_IF_ERROR(file.Emit(i, std::move(kernel), file.Text(i, "gpu"),
                                   Convention::kPyTorchEvents, Runtime::kPyTorch,
                                   1e3 * file.Number(i, "latency_ms")));
  }
  return {};
}

}  // namespace

Status ReadNeuSight(const std::filesystem::path& folder, const Exclusions& exclusions,
                    const RowSink& sink, ReadReport& report) {
  const std::pair<std::string_view, Status (*)(SetFile&)> files[] = {
      {"conv2d_fp32.csv", ReadNeuSightConv},
      {"gemm_fp32.csv", ReadNeuSightGemm},
      {"elementwise_norm_fp32.csv", ReadNeuSightElementwise}};
  for (const auto& [name, read] : files) {
    HASE_ASSIGN_OR_RETURN(auto file,
                          SetFile::Open(folder, name, kNeuSight, exclusions, sink, report));
    if (file) HASE_RETURN_IF_ERROR(read(*file));
  }
  return {};
}

Status ReadAiConfigurator(const std::filesystem::path& folder, const Exclusions& exclusions,
                          const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(auto file, SetFile::Open(folder, "gemm_bf16.csv", "aiconfigurator_gemm",
                                                 exclusions, sink, report));
  for (size_t i = 0; file && i < file->rows(); ++i) {
    GemmShape shape{.m = file->Integer(i, "m"),
                    .n = file->Integer(i, "n"),
                    .k = file->Integer(i, "k"),
                    .weights = true};
    HASE_ASSIGN_OR_RETURN(shape.precision, file->PrecisionOf(i, "gemm_dtype"));
    HASE_RETURN_IF_ERROR(file->Emit(i, GemmKernel(shape), file->Text(i, "device"),
                                    Convention::kServingGemm, Runtime::kPyTorch,
                                    1e3 * file->Number(i, "latency_ms")));
  }
  return {};
}

namespace {

bool IsGpu(std::string_view name) { return name.starts_with("NV_") || name.starts_with("AMD_"); }

Status ReadDeepBenchConv(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    if (!IsGpu(file.Text(i, "gpu")) && file.Drop("not_a_gpu")) continue;
    ConvShape shape{.batch = file.Integer(i, "N"),
                    .in_channels = file.Integer(i, "C"),
                    .height = file.Integer(i, "H"),
                    .width = file.Integer(i, "W"),
                    .out_channels = file.Integer(i, "K")};
    const auto small = [&](std::string_view column) {
      return static_cast<int32_t>(file.Integer(i, column));
    };
    shape.window.kernel = {small("filter_h"), small("filter_w")};
    shape.window.stride = {small("stride_h"), small("stride_w")};
    shape.window.pad = {small("pad_h"), small("pad_w"), small("pad_h"), small("pad_w")};
    HASE_ASSIGN_OR_RETURN(shape.precision, file.PrecisionOf(i, "dtype"));
    HASE_RETURN_IF_ERROR(file.Emit(i, ConvKernel(shape), file.Text(i, "gpu"),
                                   Convention::kLibraryCall, Runtime::kOrtCuda,
                                   1e3 * file.Number(i, "forward_ms")));
  }
  return {};
}

Status ReadDeepBenchGemm(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    if (!IsGpu(file.Text(i, "gpu")) && file.Drop("not_a_gpu")) continue;
    GemmShape shape{.m = file.Integer(i, "M"),
                    .n = file.Integer(i, "N"),
                    .k = file.Integer(i, "K"),
                    .transpose_a = file.Text(i, "trans_a") == "T",
                    .transpose_b = file.Text(i, "trans_b") == "T"};
    HASE_ASSIGN_OR_RETURN(shape.precision, file.PrecisionOf(i, "dtype"));
    HASE_RETURN_IF_ERROR(file.Emit(i, GemmKernel(shape), file.Text(i, "gpu"),
                                   Convention::kLibraryCall, Runtime::kOrtCuda,
                                   1e3 * file.Number(i, "time_ms")));
  }
  return {};
}

}  // namespace

Status ReadDeepBench(const std::filesystem::path& folder, const Exclusions& exclusions,
                     const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(auto conv,
                        SetFile::Open(folder, "conv2d.csv", "deepbench", exclusions, sink, report));
  if (conv) HASE_RETURN_IF_ERROR(ReadDeepBenchConv(*conv));
  HASE_ASSIGN_OR_RETURN(auto gemm,
                        SetFile::Open(folder, "gemm.csv", "deepbench", exclusions, sink, report));
  if (gemm) HASE_RETURN_IF_ERROR(ReadDeepBenchGemm(*gemm));
  return {};
}

// The same product was timed again for every model and parallel degree that contains it: one row
// with the median.
Status ReadVidur(const std::filesystem::path& folder, const Exclusions& exclusions,
                 const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(
      auto file, SetFile::Open(folder, "llm_ops_fp16.csv", "vidur_gemm", exclusions, sink, report));
  std::map<std::tuple<std::string_view, int64_t, int64_t, int64_t>,
           std::pair<size_t, std::vector<double>>>
      products;
  for (size_t i = 0; file && i < file->rows(); ++i) {
    if (file->Text(i, "N").empty()) {
      if (file->Drop("no_shape")) continue;
      return Invalid("vidur_gemm: a row without N and K, and exclusions.csv does not drop it");
    }
    auto& [first, times] = products
                               .try_emplace({file->Text(i, "gpu"), file->Integer(i, "M_tokens"),
                                             file->Integer(i, "N"), file->Integer(i, "K")},
                                            i, std::vector<double>())
                               .first->second;
    if (!times.empty()) file->Drop("repeated_measurement");
    times.push_back(file->Number(i, "median_ms"));
  }
  for (auto& [key, value] : products) {
    auto& [row, times] = value;
    std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(times.size() / 2));
    const auto& [gpu, m, n, k] = key;
    auto kernel =
        GemmKernel({.m = m, .n = n, .k = k, .precision = Precision::kFp16, .weights = true});
    // The GPUs of this set are SXM parts.
    const std::string_view device = gpu == "a100"   ? "A100-SXM4-80GB"
                                    : gpu == "h100" ? "H100-SXM5-80GB"
                                                    : gpu;
    HASE_RETURN_IF_ERROR(file->Emit(row, std::move(kernel), device, Convention::kKernelProfile,
                                    Runtime::kPyTorch, 1e3 * times[times.size() / 2],
                                    static_cast<int64_t>(times.size())));
  }
  return {};
}

}  // namespace hase::latency

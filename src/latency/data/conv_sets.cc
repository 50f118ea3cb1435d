// Convolutions: TensorRT engines on a V100, TensorFlow sessions, AMD's solver records.
#include <algorithm>

#include "latency/data/readers.h"
#include "latency/data/shapes.h"

namespace hase::latency {

using model::Runtime;

namespace {

model::Window SquareWindow(int64_t kernel, int64_t stride, int64_t pad) {
  const auto k = static_cast<int32_t>(kernel), s = static_cast<int32_t>(stride),
             p = static_cast<int32_t>(pad);
  model::Window window;
  window.kernel = {k, k};
  window.stride = {s, s};
  window.pad = {p, p, p, p};
  return window;
}

}  // namespace

Status ReadAlibaba(const std::filesystem::path& folder, const Exclusions& exclusions,
                   const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(auto file, SetFile::Open(folder, "conv2d_trt_v100.csv", "alibaba_lnas_v100",
                                                 exclusions, sink, report));
  for (size_t i = 0; file && i < file->rows(); ++i) {
    const int64_t kernel = file->Integer(i, "kernel");
    ConvShape shape{.batch = file->Integer(i, "batch"),
                    .in_channels = file->Integer(i, "in_ch"),
                    .height = file->Integer(i, "in_h"),
                    .width = file->Integer(i, "in_w"),
                    .out_channels = file->Integer(i, "out_ch"),
                    .window = SquareWindow(kernel, file->Integer(i, "stride"), kernel / 2)};
    if (file->Text(i, "conv_type") == "Depthwise") {
      shape.window.groups = static_cast<int32_t>(shape.in_channels);
    }
    HASE_ASSIGN_OR_RETURN(shape.precision, file->PrecisionOf(i, "dtype"));
    shape.fused_add = file->Integer(i, "elmt_fused") != 0;
    HASE_RETURN_IF_ERROR(file->Emit(i, ConvKernel(shape), "Tesla V100 SXM2 32 GB",
                                    Convention::kTensorRtEngine, Runtime::kTensorRt,
                                    1e3 * file->Number(i, "latency_ms")));
  }
  return {};
}

namespace {

Status ReadCdecatapultConv(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    if (file.Text(i, "phase") != "forward" && file.Drop("not_forward")) continue;
    const int64_t kernel = file.Integer(i, "kernel"), stride = file.Integer(i, "stride");
    const int64_t size = file.Integer(i, "in_hw");
    // TensorFlow's SAME: ceil(size / stride) outputs, the odd pixel of padding after.
    const bool same = file.Integer(i, "pad_same") != 0;
    const int64_t out = same ? (size + stride - 1) / stride : (size - kernel) / stride + 1;
    const int64_t pad = same ? std::max<int64_t>(0, (out - 1) * stride + kernel - size) : 0;
    ConvShape shape{.batch = file.Integer(i, "batch"),
                    .in_channels = file.Integer(i, "in_ch"),
                    .height = size,
                    .width = size,
                    .out_channels = file.Integer(i, "out_ch"),
                    .window = SquareWindow(kernel, stride, pad / 2),
                    .out_height = out,
                    .out_width = out};
    shape.window.pad[2] = shape.window.pad[3] = static_cast<int32_t>(pad - pad / 2);
    shape.bias = file.Text(i, "use_bias") == "1";
    const auto activation = file.Text(i, "activation");
    if (activation != "None" && activation != "none") shape.activation = activation;
    HASE_RETURN_IF_ERROR(file.Emit(i, ConvKernel(shape), file.Text(i, "gpu"),
                                   Convention::kTensorFlowSession, Runtime::kOrtCuda,
                                   1e3 * file.Number(i, "time_median_ms")));
  }
  return {};
}

Status ReadCdecatapultDense(SetFile& file) {
  for (size_t i = 0; i < file.rows(); ++i) {
    if (file.Text(i, "phase") != "forward" && file.Drop("not_forward")) continue;
    auto kernel = GemmKernel({.m = file.Integer(i, "batch"),
                              .n = file.Integer(i, "out_features"),
                              .k = file.Integer(i, "in_features"),
                              .weights = true});
    HASE_RETURN_IF_ERROR(file.Emit(i, std::move(kernel), file.Text(i, "gpu"),
                                   Convention::kTensorFlowSession, Runtime::kOrtCuda,
                                   1e3 * file.Number(i, "time_median_ms")));
  }
  return {};
}

}  // namespace

Status ReadCdecatapult(const std::filesystem::path& folder, const Exclusions& exclusions,
                       const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(auto conv, SetFile::Open(folder, "conv2d_forward.csv", "cdecatapult",
                                                 exclusions, sink, report));
  if (conv) HASE_RETURN_IF_ERROR(ReadCdecatapultConv(*conv));
  HASE_ASSIGN_OR_RETURN(auto dense, SetFile::Open(folder, "dense_forward.csv", "cdecatapult",
                                                  exclusions, sink, report));
  if (dense) HASE_RETURN_IF_ERROR(ReadCdecatapultDense(*dense));
  return {};
}

Status ReadMiopen(const std::filesystem::path& folder, const Exclusions& exclusions,
                  const RowSink& sink, ReadReport& report) {
  HASE_ASSIGN_OR_RETURN(auto file, SetFile::Open(folder, "conv2d_fwd_best.csv", "miopen_finddb",
                                                 exclusions, sink, report));
  for (size_t i = 0; file && i < file->rows(); ++i) {
    ConvShape shape{.batch = file->Integer(i, "N"),
                    .in_channels = file->Integer(i, "C"),
                    .height = file->Integer(i, "H"),
                    .width = file->Integer(i, "W"),
                    .out_channels = file->Integer(i, "K"),
                    .out_height = file->Integer(i, "out_h"),
                    .out_width = file->Integer(i, "out_w")};
    const auto small = [&](std::string_view column) {
      return static_cast<int32_t>(file->Integer(i, column));
    };
    shape.window.kernel = {small("filter_h"), small("filter_w")};
    shape.window.stride = {small("stride_h"), small("stride_w")};
    shape.window.dilation = {small("dil_h"), small("dil_w")};
    shape.window.pad = {small("pad_h"), small("pad_w"), small("pad_h"), small("pad_w")};
    shape.window.groups = small("group");
    HASE_ASSIGN_OR_RETURN(shape.precision, file->PrecisionOf(i, "dtype"));
    HASE_RETURN_IF_ERROR(file->Emit(i, ConvKernel(shape), file->Text(i, "gpu"),
                                    Convention::kMiopenSolver, Runtime::kPyTorch,
                                    1e3 * file->Number(i, "best_time_ms")));
  }
  return {};
}

}  // namespace hase::latency

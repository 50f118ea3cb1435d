// A trace of torch.profiler: traceEvents of category "cpu_op" ("aten::convolution", with Input Dims
// and, in later releases, Concrete Inputs) and of category "kernel" (device work), tied together by
// args["External id"]. Times of all kernels under one operator call are summed; calls of equal
// geometry become one sample with their median. Understood: convolutions, matrix products (linear,
// addmm, mm, bmm, matmul). All other device time is counted in a note.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "latency/imports/imports.h"

namespace hase::latency {
namespace {

using nlohmann::json;

struct Call {
  std::string op;
  std::vector<model::Shape> inputs;
  std::vector<std::string> concrete;
  double kernel_us = 0;
};

constexpr int64_t kLongestSide = 1 << 24;

std::string TextOf(const json& event, const char* key) {
  const auto it = event.find(key);
  return it != event.end() && it->is_string() ? it->get<std::string>() : "";
}

std::optional<int64_t> ExternalId(const json& event) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return std::nullopt;
  for (const char* key : {"External id", "external id"}) {
    const auto it = args->find(key);
    if (it != args->end() && it->is_number_integer()) return it->get<int64_t>();
  }
  return std::nullopt;
}

std::vector<model::Shape> Dims(const json& args) {
  std::vector<model::Shape> shapes;
  const auto list = args.find("Input Dims");
  if (list == args.end() || !list->is_array()) return shapes;
  for (const auto& dims : *list) {
    model::Shape shape;
    for (size_t i = 0; dims.is_array() && i < dims.size(); ++i) {
      if (dims[i].is_number_integer()) shape.push_back(dims[i].get<int64_t>());
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// "[2, 2]" or "[2]" → 2; nullopt if it is none, negative, absurd or not the same both ways.
std::optional<int32_t> OneOf(const std::vector<std::string>& concrete, size_t i) {
  int first = 0, second = 0;
  const int found =
      i < concrete.size() ? std::sscanf(concrete[i].c_str(), " [%d, %d", &first, &second) : 0;
  if (found < 1 || first < 0 || first > 1 << 16 || (found == 2 && first != second)) {
    return std::nullopt;
  }
  return first;
}

// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
// groups); without Concrete Inputs stride and padding are unknown and the call is not understood.
std::optional<model::Kernel> Convolution(const Call& call, model::Precision precision) {
  if (call.inputs.size() < 2 || call.inputs[0].size() != 4 || call.inputs[1].size() != 4) {
    return std::nullopt;
  }
  const auto strides = OneOf(call.concrete, 3), pads = OneOf(call.concrete, 4),
             dilations = OneOf(call.concrete, 5);
  if (!strides || !pads || !dilations || *strides < 1 || *dilations < 1) return std::nullopt;
  if (call.concrete.size() < 7) return std::nullopt;
  if (call.concrete[6] == "True" || call.concrete[6] == "true") return std::nullopt;  // transposed
  const auto& x = call.inputs[0];
  const auto& w = call.inputs[1];
  for (const int64_t side : {x[0], x[1], x[2], x[3], w[0], w[1], w[2], w[3]}) {
    if (side < 1 || side > kLongestSide) return std::nullopt;
  }
  const int32_t stride = *strides, pad = *pads, dilation = *dilations;
  const auto reach = [&](size_t i) { return dilation * (w[i] - 1) + 1; };
  const int64_t h = (x[2] + 2 * pad - reach(2)) / stride + 1;
  const int64_t wide = (x[3] + 2 * pad - reach(3)) / stride + 1;
  if (h < 1 || wide < 1 || x[1] % w[1] != 0) return std::nullopt;
  const int64_t groups = x[1] / w[1];
  model::Kernel k;
  k.op = "Conv";
  k.precision = precision;
  k.op_class = groups == 1                     ? model::OpClass::kConv
               : w[1] == 1 && w[0] % x[1] == 0 ? model::OpClass::kDepthwiseConv
                                               : model::OpClass::kGroupedConv;
  k.inputs = {x, w};
  k.output = {x[0], w[0], h, wide};
  k.window.kernel = {static_cast<int32_t>(w[2]), static_cast<int32_t>(w[3])};
  k.window.stride = {stride, stride};
  k.window.pad = {pad, pad, pad, pad};
  k.window.dilation = {dilation, dilation};
  k.window.groups = static_cast<int32_t>(groups);
  k.m = x[0] * h * wide;
  k.n = w[0] / groups;
  k.k = w[1] * w[2] * w[3];
  k.gemm_batch = groups;
  return k;
}

std::optional<model::Kernel> Matrix(const Call& call, model::Precision precision) {
  const bool addmm = call.op == "aten::addmm";
  const size_t first = addmm ? 1 : 0;
  if (call.inputs.size() < first + 2) return std::nullopt;
  const auto &a = call.inputs[first], &b = call.inputs[first + 1];
  if (a.size() < 2 || a.size() != b.size() || a.size() > 3) return std::nullopt;
  const size_t r = a.size();
  if (a[r - 1] != b[r - 2] || (r == 3 && a[0] != b[0])) return std::nullopt;
  model::Kernel k;
  k.op = "MatMul";
  k.op_class = model::OpClass::kGemm;
  k.precision = precision;
  k.inputs = {a, b};
  k.output = a;
  k.output[r - 1] = b[r - 1];
  k.m = a[r - 2];
  k.n = b[r - 1];
  k.k = a[r - 1];
  k.gemm_batch = r == 3 ? a[0] : 1;
  return k;
}

std::optional<model::Kernel> KernelOf(const Call& call, model::Precision precision) {
  auto kernel = call.op == "aten::convolution" || call.op == "aten::_convolution" ||
                        call.op == "aten::cudnn_convolution"
                    ? Convolution(call, precision)
                    : Matrix(call, precision);
  if (!kernel) return std::nullopt;
  const auto elements = [](const model::Shape& s) { return model::ElementCount(s).value_or(0); };
  const int64_t size = model::BytesPerElement(precision);
  kernel->flops = 2 * kernel->m * kernel->n * kernel->k * kernel->gemm_batch;
  kernel->bytes_activations = size * elements(kernel->inputs[0]);
  kernel->bytes_weights = size * elements(kernel->inputs[1]);
  kernel->bytes_written = size * elements(kernel->output);
  if (kernel->flops <= 0) return std::nullopt;
  return kernel;
}

constexpr std::string_view kUnderstood[] = {
    "aten::convolution", "aten::_convolution", "aten::cudnn_convolution", "aten::addmm", "aten::mm",
    "aten::bmm",         "aten::matmul"};

}  // namespace

Result<Imported> ImportTorchProfiler(const std::string& file, std::string_view text,
                                     const ImportLabel& label) {
  const json trace = json::parse(text, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
    return Invalid(fmt::format("{}: not a trace with a list traceEvents", file));
  }
  std::map<int64_t, Call> calls;
  const auto& events = trace["traceEvents"];
  for (const auto& event : events) {
    if (!event.is_object() || TextOf(event, "cat") != "cpu_op") continue;
    const auto id = ExternalId(event);
    if (!id) continue;
    Call& call = calls[*id];
    call.op = TextOf(event, "name");
    const auto& args = event.at("args");
    call.inputs = Dims(args);
    if (args.contains("Concrete Inputs") && args["Concrete Inputs"].is_array()) {
      for (const auto& value : args["Concrete Inputs"]) {
        call.concrete.push_back(value.is_string() ? value.get<std::string>() : "");
      }
    }
  }
  double all_us = 0, known_us = 0;
  int kernels = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    if (!event.is_object() || TextOf(event, "cat") != "kernel") continue;
    const auto dur = event.find("dur");
    if (dur == event.end() || !dur->is_number() || !(dur->get<double>() >= 0)) {
      return Invalid(fmt::format("{}: event {}: a kernel without a duration", file, i + 1));
    }
    ++kernels;
    all_us += dur->get<double>();
    const auto id = ExternalId(event);
    if (const auto it = id ? calls.find(*id) : calls.end(); it != calls.end()) {
      it->second.kernel_us += dur->get<double>();
    }
  }
  if (kernels == 0) {
    return Invalid(fmt::format("{}: no device kernels (profile with ProfilerActivity.CUDA)", file));
  }
  std::map<std::string, std::pair<model::Kernel, std::vector<double>>> by_geometry;
  for (const auto& [id, call] : calls) {
    if (call.kernel_us <= 0) continue;
    if (std::ranges::find(kUnderstood, call.op) == std::end(kUnderstood)) continue;
    const auto kernel = KernelOf(call, label.precision);
    if (!kernel) continue;
    known_us += call.kernel_us;
    auto& [first, times] = by_geometry[model::GeometryKey(*kernel)];
    first = *kernel;
    times.push_back(call.kernel_us);
  }
  Imported out;
  for (auto& [key, entry] : by_geometry) {
    Sample s = WholeSampleOf(label, "torch_profiler");
    s.whole_model = false;
    s.kernel = entry.first;
    Spread(std::move(entry.second), &s);
    out.samples.push_back(std::move(s));
  }
  if (out.samples.empty()) {
    return Invalid(fmt::format(
        "{}: no convolution or matrix product with shapes (profile with record_shapes=True)",
        file));
  }
  if (known_us < all_us) {
    out.notes.push_back(
        fmt::format("{}: {:.1f} % of the device's time is in operators that are "
                    "not imported",
                    file, 100 * (1 - known_us / all_us)));
  }
  return out;
}

}  // namespace hase::latency

#include "latency/features.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace hase::latency {
namespace {

using cluster::DeviceSpec;
using model::Kernel;
using model::OpClass;

constexpr double kNoAlgorithm = 9;  // log-ratio of an algorithm that cannot run this kernel

double D(int64_t value) { return static_cast<double>(value); }
double Log(double x) { return std::log(std::max(x, 1e-9)); }
double Ceil(double a, double b) { return std::ceil(a / b); }
// log2 of the greatest power of two, at most 256, that divides x.
double Alignment(int64_t x) {
  return x <= 0 ? 0 : std::min(8, std::countr_zero(static_cast<uint64_t>(x)));
}

// The device as the features need it, with defaults for what a specification lacks.
struct Card {
  double sms, bandwidth, l2, clock, fp32, peak, per_sm;  // bandwidth B/us, peaks flop/us, l2 bytes
  double capability;
  Card(const DeviceSpec& spec, const Kernel& kernel, const Roofline& roof)
      : sms(std::max(1, spec.sm_count)),
        bandwidth((spec.bandwidth_gb_s > 0 ? spec.bandwidth_gb_s : 10) * 1e3),
        l2(std::max<double>(D(spec.l2.value()), 262144)),
        clock(std::max(1, spec.boost_clock_mhz)),
        fp32(std::max(0.01, spec.peak_tflops[0]) * 1e6),
        peak(roof.compute_us > 0 ? D(kernel.flops) / (roof.compute_us * kernel.algorithm_gain())
                                 : fp32),
        per_sm(peak / sms),
        capability(spec.compute_capability) {}
};

// tf32 runs on tensor cores, as fp16 does.
double PrecisionCode(model::Precision p) {
  return static_cast<double>(p == model::Precision::kTf32 ? model::Precision::kFp16 : p);
}

// Names or values, from one definition: `Put(name, value)` in a fixed order.
class Recorder {
 public:
  Recorder(std::vector<std::string>* names, std::vector<float>* values)
      : names_(names), values_(values) {}
  void Put(const char* name, double value) { Put(name, "", value); }
  void Put(const char* name, const char* suffix, double value) {
    if (names_ != nullptr) names_->push_back(std::string(name) + suffix);
    if (values_ != nullptr) {
      values_->push_back(std::isfinite(value) ? static_cast<float>(value) : 0.0F);
    }
  }
  void MarkShapeEnd() { shape_end_ = count(); }
  size_t shape_end() const { return shape_end_; }

 private:
  size_t count() const { return names_ != nullptr ? names_->size() : values_->size(); }
  std::vector<std::string>* names_;
  std::vector<float>* values_;
  size_t shape_end_ = 0;
};

struct Tile {
  const char* name;
  double m, n;
};

// Time of a tiled product, every wave full: waves * tile work / (peak of one SM).
double TiledMicros(double m, double n, double k, double batch, const Tile& t, const Card& card) {
  const double waves = std::ceil(Ceil(m, t.m) * Ceil(n, t.n) * batch / card.sms);
  return waves * t.m * t.n * k * 2 / card.per_sm;
}

void PutRoofline(Recorder& r, const Kernel& k, const Roofline& roof) {
  r.Put("flops", Log(D(k.flops)));
  r.Put("bytes", Log(D(k.bytes())));
  r.Put("intensity", Log(k.intensity()));
  r.Put("balance", Log(roof.compute_us / std::max(roof.memory_us, 1e-9)));
  r.Put("compute_us", Log(roof.compute_us));
  r.Put("memory_us", Log(roof.memory_us));
  r.Put("roofline_us", Log(roof.total_us()));
  r.Put("work_per_launch", Log(std::max(roof.compute_us, roof.memory_us) / roof.launch_us));
}

void PutTiles(Recorder& r, const Kernel& k, const Card& card) {
  static constexpr Tile kTiles[] = {{"32x32", 32, 32},
                                    {"64x64", 64, 64},
                                    {"128x64", 128, 64},
                                    {"128x128", 128, 128},
                                    {"256x128", 256, 128}};
  const double m = D(k.m), n = D(k.n);
  for (const Tile& t : kTiles) {
    const double blocks = Ceil(m, t.m) * Ceil(n, t.n);
    const double waves = blocks * D(k.gemm_batch) / card.sms;
    r.Put("waste_", t.name, Log(blocks * t.m * t.n / (m * n)));
    r.Put("tail_", t.name, Log(std::ceil(waves) / waves));
    r.Put("waves_", t.name, Log(std::ceil(waves)));
  }
}

void PutIdentity(Recorder& r, const Card& card) {
  r.MarkShapeEnd();
  r.Put("sm_count", card.sms);
  r.Put("boost_clock", card.clock);
  r.Put("bandwidth", card.bandwidth);
  r.Put("l2_bytes", card.l2);
  r.Put("fp32_peak", card.fp32);
  r.Put("capability", card.capability);
}

double ActivationCode(const std::string& activation) {
  if (activation.empty()) return 0;
  if (activation == "relu") return 1;
  return activation == "sigmoid" ? 2 : 3;
}
bool HasBias(const Kernel& k) {
  return std::ranges::any_of(k.inputs, [](const auto& shape) { return shape.size() == 1; });
}

// Estimated times of the algorithms that cuDNN chooses between, as log-ratios to the roofline.
void PutConvAlgorithms(Recorder& r, const Kernel& k, const Card& card, double roof_us) {
  static constexpr Tile kDirect[] = {{"128x32", 128, 32},   {"128x64", 128, 64},
                                     {"128x128", 128, 128}, {"64x64", 64, 64},
                                     {"256x128", 256, 128}, {"32x32", 32, 32}};
  static constexpr Tile kWinograd[] = {
      {"128x128", 128, 128}, {"64x64", 64, 64}, {"32x128", 32, 128}};
  static constexpr std::array<std::array<double, 3>, 4> kFused = {
      {{1, 8, 16}, {2, 8, 8}, {4, 8, 4}, {4, 4, 8}}};  // images, height, width of a block
  static constexpr const char* kFusedNames[] = {"1x8x16", "2x8x8", "4x8x4", "4x4x8"};
  const auto ratio = [&](double us) { return Log(us / roof_us); };
  double best_direct = kNoAlgorithm, best_winograd = kNoAlgorithm, best_fused = kNoAlgorithm;
  for (const Tile& t : kDirect) {
    const double v = ratio(TiledMicros(D(k.m), D(k.n), D(k.k), D(k.gemm_batch), t, card));
    r.Put("direct_", t.name, v);
    best_direct = std::min(best_direct, v);
  }
  const bool winograd = k.algorithm_gain() > 2;
  const double batch = D(k.inputs[0][0]), c = D(k.inputs[0][1]), out_c = D(k.output[1]);
  const double oh = D(k.output[2]), ow = D(k.output[3]);
  const double m4 = batch * Ceil(oh, 4) * Ceil(ow, 4);
  const double element = BytesPerElement(k.precision);
  const double transform = (D(k.bytes_activations + k.bytes_written) +
                            (72 * m4 * (c + out_c) + 36 * c * out_c) * element) /
                           card.bandwidth;
  for (const Tile& t : kWinograd) {
    const double v =
        winograd ? ratio(TiledMicros(m4, out_c, c, 36, t, card) + transform) : kNoAlgorithm;
    r.Put("winograd_", t.name, v);
    best_winograd = std::min(best_winograd, v);
  }
  for (size_t i = 0; i < kFused.size(); ++i) {
    const auto& [images, height, width] = kFused[i];
    const double blocks =
        Ceil(batch, images) * Ceil(out_c, 32) * Ceil(oh, height) * Ceil(ow, width);
    const double us =
        std::ceil(blocks / card.sms) * images * height * width * 32 * c * 18 / 2.25 / card.per_sm;
    const double v = winograd ? ratio(us) : kNoAlgorithm;
    r.Put("fused_winograd_", kFusedNames[i], v);
    best_fused = std::min(best_fused, v);
  }
  r.Put("transform", winograd ? ratio(transform) : kNoAlgorithm);
  r.Put("best_direct", best_direct);
  r.Put("best_winograd", best_winograd);
  r.Put("best_fused_winograd", best_fused);
  r.Put("best", std::min({best_direct, best_winograd, best_fused}));
  r.Put("winograd_over_fused", best_winograd - best_fused);
  r.Put("fused_over_direct", best_fused - best_direct);
}

void PutConv(Recorder& r, const Kernel& k, const Card& card, const Roofline& roof) {
  const auto& in = k.inputs[0];
  const double batch = D(in[0]), c = D(in[1]), h = D(in[2]), out_c = D(k.output[1]);
  const double oh = D(k.output[2]), ow = D(k.output[3]);
  r.Put("batch", Log(batch));
  r.Put("in_channels", Log(c));
  r.Put("height", Log(h));
  r.Put("width", Log(D(in[3])));
  r.Put("out_channels", Log(out_c));
  r.Put("kernel_h", k.window.kernel[0]);
  r.Put("kernel_w", k.window.kernel[1]);
  r.Put("stride", k.window.stride[0]);
  r.Put("dilation", k.window.dilation[0]);
  r.Put("pad", k.window.pad[0]);
  r.Put("groups", Log(k.window.groups));
  r.Put("precision", PrecisionCode(k.precision));
  r.Put("fused_add", k.fused_add ? 1 : 0);
  r.Put("activation", ActivationCode(k.activation));
  r.Put("bias", HasBias(k) ? 1 : 0);
  r.Put("m", Log(D(k.m)));
  r.Put("n", Log(D(k.n)));
  r.Put("k", Log(D(k.k)));
  r.Put("out_pixels", Log(oh * ow));
  r.Put("out_height", oh);
  PutRoofline(r, k, roof);
  r.Put("bytes_in", Log(D(k.bytes_activations)));
  r.Put("bytes_weights", Log(D(k.bytes_weights)));
  r.Put("bytes_out", Log(D(k.bytes_written)));
  r.Put("in_channels_alignment", Alignment(in[1]));
  r.Put("out_channels_alignment", Alignment(k.output[1]));
  r.Put("m_alignment", Alignment(k.m));
  r.Put("channel_ratio", Log(c / out_c));
  PutTiles(r, k, card);
  for (const double t : {2.0, 4.0}) {
    const char* name = t == 2 ? "2" : "4";
    r.Put("winograd_waste_", name, Log(Ceil(oh, t) * Ceil(ow, t) * t * t / (oh * ow)));
    r.Put("winograd_tiles_", name, Log(Ceil(oh, t) * Ceil(ow, t) * batch));
  }
  PutConvAlgorithms(r, k, card, roof.total_us());
  r.Put("in_channels_waste_8", Log(Ceil(c, 8) * 8 / c));
  r.Put("in_channels_waste_32", Log(Ceil(c, 32) * 32 / c));
  r.Put("out_channels_waste_32", Log(Ceil(out_c, 32) * 32 / out_c));
  r.Put("out_channels_waste_64", Log(Ceil(out_c, 64) * 64 / out_c));
  r.Put("out_channels_waste_128", Log(Ceil(out_c, 128) * 128 / out_c));
  r.Put("in_per_l2", Log(D(k.bytes_activations) / card.l2));
  r.Put("weights_per_l2", Log(D(k.bytes_weights) / card.l2));
  r.Put("out_per_l2", Log(D(k.bytes_written) / card.l2));
  PutIdentity(r, card);
}

void PutGemm(Recorder& r, const Kernel& k, const Card& card, const Roofline& roof) {
  static constexpr Tile kTiles[] = {
      {"32x32", 32, 32},     {"32x128", 32, 128},   {"128x32", 128, 32},
      {"64x64", 64, 64},     {"128x64", 128, 64},   {"64x128", 64, 128},
      {"128x128", 128, 128}, {"256x128", 256, 128}, {"128x256", 128, 256}};
  const double m = D(k.m), n = D(k.n), kk = D(k.k), batch = D(k.gemm_batch);
  const double element = BytesPerElement(k.precision);
  r.Put("m", Log(m));
  r.Put("n", Log(n));
  r.Put("k", Log(kk));
  r.Put("gemm_batch", Log(batch));
  r.Put("weights", k.bytes_weights > 0 ? 1 : 0);
  r.Put("bias", HasBias(k) ? 1 : 0);
  r.Put("precision", PrecisionCode(k.precision));
  const bool known = k.inputs.size() >= 2 && !k.inputs[0].empty() && !k.inputs[1].empty();
  r.Put("transpose_a", known && k.inputs[0].back() != k.k ? 1 : 0);
  r.Put("transpose_b", known && k.inputs[1].back() != k.n ? 1 : 0);
  PutRoofline(r, k, roof);
  r.Put("bytes_a", Log(batch * m * kk * element));
  r.Put("bytes_b", Log(batch * n * kk * element));
  r.Put("bytes_out", Log(batch * m * n * element));
  r.Put("m_alignment", Alignment(k.m));
  r.Put("n_alignment", Alignment(k.n));
  r.Put("k_alignment", Alignment(k.k));
  r.Put("m_over_n", Log(m / n));
  r.Put("least_side", Log(std::min(m, n)));
  r.Put("m_plain", m);
  PutTiles(r, k, card);
  r.Put("k_waste_32", Log(Ceil(kk, 32) * 32 / kk));
  double best = kNoAlgorithm;
  for (const Tile& t : kTiles) {
    const double v = Log(TiledMicros(m, n, kk, batch, t, card) / roof.total_us());
    r.Put("tiled_", t.name, v);
    best = std::min(best, v);
  }
  r.Put("best", best);
  r.Put("a_per_l2", Log(batch * m * kk * element / card.l2));
  r.Put("b_per_l2", Log(batch * n * kk * element / card.l2));
  r.Put("out_per_l2", Log(batch * m * n * element / card.l2));
  PutIdentity(r, card);
}

// Work per element of operators that are bound by memory; unknown ones count as a copy.
double OperatorCode(const Kernel& k) {
  static constexpr std::string_view kOps[] = {
      "Add", "Mul", "Div", "Pow", "Relu", "Gelu", "Tanh", "Softmax", "LayerNormalization"};
  const std::string_view op = std::string_view(k.op).substr(0, k.op.find('+'));
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i] == op) return static_cast<double>(i);
  }
  switch (k.op_class) {
    case OpClass::kActivation:
      return op == "LeakyRelu" || op == "Clip" ? 4 : 6;
    case OpClass::kSoftmax:
      return 7;
    case OpClass::kLayerNorm:
      return 8;
    default:
      return k.inputs.size() > 1 ? 0 : 4;
  }
}

void PutMemory(Recorder& r, const Kernel& k, const Card& card, const Roofline& roof) {
  const double elements = k.output.empty() ? 1 : D(model::ElementCount(k.output).value_or(1));
  const double columns = k.output.empty() ? 1 : std::max(1.0, D(k.output.back()));
  const double rows = std::max(1.0, elements / columns);
  const bool scalar = k.inputs.size() > 1 && model::ElementCount(k.inputs[1]).value_or(0) <= 1;
  r.Put("elements", Log(elements));
  r.Put("rows", Log(rows));
  r.Put("columns", Log(columns));
  r.Put("operator", OperatorCode(k));
  r.Put("scalar", scalar ? 1 : 0);
  r.Put("precision", PrecisionCode(k.precision));
  r.Put("bytes_in", Log(D(k.bytes_activations)));
  r.Put("bytes_out", Log(D(k.bytes_written)));
  PutRoofline(r, k, roof);
  r.Put("columns_alignment", Alignment(static_cast<int64_t>(columns)));
  r.Put("elements_alignment", Alignment(static_cast<int64_t>(elements)));
  for (const double per_block : {512.0, 2048.0}) {
    const double waves = elements / per_block / (card.sms * 4);
    r.Put(per_block < 1000 ? "tail_512" : "tail_2048", Log(std::ceil(waves) / waves));
    r.Put(per_block < 1000 ? "waves_512" : "waves_2048", Log(std::ceil(waves)));
  }
  r.Put("rows_per_sm", Log(rows / card.sms));
  r.Put("row_tail", Log(std::ceil(rows / card.sms) / (rows / card.sms)));
  r.Put("columns_plain", columns);
  r.Put("bytes_per_l2", Log(D(k.bytes()) / card.l2));
  r.Put("out_per_l2", Log(D(k.bytes_written) / card.l2));
  PutIdentity(r, card);
}

void PutFamily(Recorder& r, Family family, const Kernel& k, const DeviceSpec& spec,
               const Roofline& roof) {
  const Card card(spec, k, roof);
  if (family == Family::kConv) return PutConv(r, k, card, roof);
  if (family == Family::kGemm) return PutGemm(r, k, card, roof);
  PutMemory(r, k, card, roof);
}

struct Layout {
  std::vector<std::string> names;
  size_t shape_count = 0;
};
const Layout& LayoutOf(Family family) {
  static const auto* layouts = [] {
    auto* all = new std::array<Layout, kFamilyCount>;
    for (int f = 0; f < kFamilyCount; ++f) {
      Kernel kernel;
      kernel.inputs = {{1, 1, 1, 1}, {1, 1, 1, 1}};
      kernel.output = {1, 1, 1, 1};
      kernel.m = kernel.n = kernel.k = kernel.gemm_batch = 1;
      Layout& layout = (*all)[static_cast<size_t>(f)];
      Recorder recorder(&layout.names, nullptr);
      PutFamily(recorder, static_cast<Family>(f), kernel, {}, {1, 1, 1});
      layout.shape_count = recorder.shape_end();
    }
    return all;
  }();
  return (*layouts)[static_cast<size_t>(family)];
}

}  // namespace

std::string_view ToString(Family f) {
  static constexpr std::string_view kNames[] = {"conv", "gemm", "memory"};
  return kNames[static_cast<size_t>(f)];
}

Family FamilyOf(const Kernel& k) {
  switch (k.op_class) {
    case OpClass::kConv:
    case OpClass::kDepthwiseConv:
    case OpClass::kGroupedConv:
      // Lowered from a graph with other than four dimensions: no windows to tile.
      return !k.inputs.empty() && k.inputs[0].size() == 4 && k.output.size() == 4 && k.m > 0
                 ? Family::kConv
                 : Family::kMemory;
    case OpClass::kGemm:
      return k.m > 0 && k.n > 0 && k.k > 0 ? Family::kGemm : Family::kMemory;
    default:
      return Family::kMemory;
  }
}

const std::vector<std::string>& FeatureNames(Family family) { return LayoutOf(family).names; }
size_t ShapeFeatureCount(Family family) { return LayoutOf(family).shape_count; }

double ConventionLaunchMicros(Convention convention, Family family, double session_place) {
  static constexpr double kMicros[] = {4, 10, 200, 6, 2, 5, 8};
  static_assert(std::size(kMicros) == kConventionCount);
  // The least readings of NeuSight's convolutions: of the first rows, and how they rise.
  if (convention == Convention::kPyTorchEvents && family == Family::kConv) {
    return 60 + 300 * session_place;
  }
  return kMicros[static_cast<size_t>(convention)];
}

Features ComputeFeatures(const Kernel& kernel, const KernelTarget& target, Convention convention) {
  Features out;
  const Family family = FamilyOf(kernel);
  out.roofline = ComputeRoofline(kernel, *target.spec,
                                 ConventionLaunchMicros(convention, family, target.session_place));
  out.values.reserve(FeatureNames(family).size());
  Recorder recorder(nullptr, &out.values);
  PutFamily(recorder, family, kernel, *target.spec, out.roofline);
  return out;
}

}  // namespace hase::latency

#include "latency/cpu_kernel_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/hash.h"
#include "latency/evidence.h"

namespace hase::latency {
namespace {

using model::Kernel;
using model::OpClass;

constexpr double kDispatchUs = 1.5;   // of ONNX Runtime's executor per node; profiles show 1–2 µs
constexpr double kSameWarmth = 0.25;  // of coordinates that are octaves halved
constexpr double kLeastTrafficUs = 8;
constexpr double kLeastScoredUs = 20, kFewScored = 10, kP90 = 1.2816;
constexpr size_t kMostScored = 500;
constexpr double kConvolutionScale = 0.7;
constexpr double kModelScale = 0.15;  // of the octaves of a model's data
constexpr int kVector = 16;           // floats of an AVX-512 register = channels of a block

double Log2(double value) { return std::log2(std::max(value, 1.0)); }

// The unused part of the last block when `count` is cut into blocks of `size`.
double Slack(int64_t count, int64_t size) {
  if (count <= 0) return 0;
  const int64_t full = (count + size - 1) / size * size;
  return static_cast<double>(full - count) / static_cast<double>(full);
}

int64_t Dim(const model::Shape& shape, size_t i) { return i < shape.size() ? shape[i] : 1; }

// A few numbers that tell operators apart: equal names give 0 distance, unlike ones about 1.4.
void AppendIdentity(std::string_view text, double weight, std::vector<double>& x) {
  const uint64_t h = Fnv1a64(text);
  for (int i = 0; i < 4; ++i) x.push_back(weight * (h >> (8 * i) & 1 ? 0.7 : -0.7));
}

// Fused activations by what they cost.
double ActivationCost(std::string_view activation) {
  if (activation.empty()) return 0;
  if (activation == "relu") return 0.2;
  if (activation == "clip" || activation == "relu6" || activation == "leaky_relu") return 0.5;
  return 1.5;
}

std::vector<double> WindowCoordinates(const Kernel& k) {
  const int64_t n = Dim(k.output, 0), co = Dim(k.output, 1);
  const int64_t ci = k.inputs.empty() ? 1 : Dim(k.inputs[0], 1);
  const int64_t h = Dim(k.output, 2), w = Dim(k.output, 3);
  const double area = static_cast<double>(k.window.kernel[0]) * k.window.kernel[1];
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const int64_t co_blocks = (co + kVector - 1) / kVector;
  return {Log2(d(n)) / 8,
          Log2(d(ci)) / 4,
          Log2(d(co)) / 4,
          Log2(area) / 6,
          Log2(d(k.window.stride[0])) / 2,
          Log2(d(h * w)) / 4,
          k.fused_add ? 0.6 : 0.0,
          ci < kVector ? 1.25 : 0.0,
          Slack(w, 6) / 1.5,
          Slack(co_blocks, 4) / 1.5,
          Slack(co, kVector),
          ci >= kVector ? Slack(ci, kVector) : 0.0,
          area == 1 ? 1.0 : 0.0,
          Log2(k.intensity()) / 4,
          ActivationCost(k.activation)};
}

std::vector<double> MatrixCoordinates(const Kernel& k) {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  return {Log2(d(k.m)) / 2,
          Log2(d(k.n)) / 4,
          Log2(d(k.k)) / 4,
          Log2(d(k.gemm_batch)) / 2,
          Log2(d(k.bytes())) / 4,
          Slack(k.n, kVector),
          ActivationCost(k.activation)};
}

std::vector<double> PlainCoordinates(const Kernel& k) {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const int64_t elements = model::ElementCount(k.output).value_or(1);
  const int64_t row = k.output.empty() ? 1 : k.output.back();
  std::vector<double> x = {Log2(d(k.bytes())) / 4,
                           Log2(d(elements)) / 4,
                           Log2(d(row)) / 6,
                           Log2(d(Dim(k.output, 1))) / 6,
                           Log2(d(static_cast<int64_t>(k.inputs.size()))) / 3,
                           Log2(d(k.bytes_activations) / std::max(d(k.bytes_written), 1.0)) / 2};
  AppendIdentity(k.op, 1.0, x);
  return x;
}

// These do little else than to move memory.
bool KnownByReuse(OpClass c) {
  return c == OpClass::kDataMovement || c == OpClass::kPool || c == OpClass::kBatchNorm ||
         c == OpClass::kBinary || c == OpClass::kDepthwiseConv;
}
// Works on its data long enough that the time to fetch it comes on top.
bool Computes(OpClass c) {
  return model::IsConvolution(c) || c == OpClass::kGemm || c == OpClass::kAttention;
}
// Moves memory and computes next to nothing: what the prices of traffic are fitted to.
bool IsTraffic(OpClass c) {
  return c == OpClass::kDataMovement || c == OpClass::kBatchNorm || c == OpClass::kBinary ||
         c == OpClass::kActivation;
}

double MiB(double bytes) { return bytes / (1 << 20); }

LocalRegressor::Options OptionsOf(OpClass c) {
  LocalRegressor::Options options;
  options.noise = 0.015;
  if (model::IsConvolution(c)) return options;
  options.noise = 0.04;
  options.neighbours = 32;
  return options;
}

// The best rate but for the top fiftieth, which may be counted wrongly (views that copy nothing).
double Best(std::vector<double> rates) {
  const size_t rank = rates.size() * 49 / 50;
  std::nth_element(rates.begin(), rates.begin() + static_cast<ptrdiff_t>(rank), rates.end());
  return rates[rank];
}

}  // namespace

void WorkingSet::Add(const Kernel& kernel) {
  activations =
      std::max(activations, static_cast<double>(kernel.bytes_activations + kernel.bytes_written));
  weights += static_cast<double>(kernel.bytes_weights);
}

WorkingSet WorkingSetOf(std::span<const Kernel> kernels) {
  WorkingSet set;
  for (const Kernel& kernel : kernels) set.Add(kernel);
  return set;
}

WorkingSets WorkingSetsOf(std::span<const Sample* const> samples) {
  WorkingSets sets;
  for (const Sample* s : samples) {
    if (!s->whole_model) sets[{s->model, s->batch}].Add(s->kernel);
  }
  return sets;
}

std::vector<double> WarmthCoordinates(const Kernel& k, const WorkingSet& set) {
  const auto octaves_of_model = [](double mib) { return std::log2(std::clamp(mib, 0.5, 180.0)); };
  if (KnownByReuse(k.op_class)) {
    const ReuseOctaves octaves = OctavesOf(k, MiB(set.activations));
    return {octaves.activations * 0.1, octaves.output * 0.3,
            octaves_of_model(MiB(set.activations)) * kModelScale};
  }
  // Matrices read the weights, which all else of a run comes between; other work reads what was
  // just written, among the activations alone. Convolutions compute on what they read, so it
  // matters less.
  const bool matrix = k.op_class == OpClass::kGemm || k.op_class == OpClass::kAttention;
  const double mib = MiB(set.activations + (matrix ? set.weights : 0));
  return {octaves_of_model(mib) / (k.op_class == OpClass::kConv ? 8 : 2)};
}

std::vector<double> CpuCoordinates(const Kernel& k, const WorkingSet& set) {
  std::vector<double> x;
  if (model::IsConvolution(k.op_class)) {
    x = WindowCoordinates(k);
    for (double& value : x) value *= kConvolutionScale;
  } else if (k.op_class == OpClass::kPool) {
    x = WindowCoordinates(k);
    AppendIdentity(k.op, 1.0, x);
  } else if (k.op_class == OpClass::kGemm || k.op_class == OpClass::kAttention) {
    x = MatrixCoordinates(k);
  } else {
    x = PlainCoordinates(k);
  }
  std::ranges::copy(WarmthCoordinates(k, set), std::back_inserter(x));
  return x;
}

CpuKernelModel::CpuKernelModel(std::span<const Sample* const> samples, double flops_per_us,
                               double bytes_per_us)
    : peak_flops_per_us_(flops_per_us), bytes_per_us_(bytes_per_us) {
  deviation_.fill(1);
  const WorkingSets sets = WorkingSetsOf(samples);
  struct Merged {
    const Sample* sample;
    std::vector<double> us;
  };
  // One point per (geometry, warmth, model): leaving a model out must leave others' points whole.
  std::vector<Merged> merged;
  std::unordered_map<std::string, size_t> index;
  for (const Sample* s : samples) {
    if (s->whole_model || s->latency_us <= 0) continue;
    std::string key = model::GeometryKey(s->kernel) + '\n' + s->model;
    if (KnownByReuse(s->kernel.op_class)) {
      for (const double w : WarmthCoordinates(s->kernel, sets.at({s->model, s->batch}))) {
        key += fmt::format("|{}", std::lround(6 * w));
      }
    }
    const auto [it, fresh] = index.emplace(std::move(key), merged.size());
    if (fresh) merged.push_back({s, {}});
    merged[it->second].us.push_back(s->latency_us);
    groups_.emplace(s->model, static_cast<uint32_t>(groups_.size()));
  }
  std::vector<double> flop_rates, byte_rates;
  for (const auto& m : merged) {
    const double us = MedianOf(m.us);
    if (us < 20) continue;
    if (m.sample->kernel.m > 0)
      flop_rates.push_back(static_cast<double>(m.sample->kernel.flops) / us);
    else
      byte_rates.push_back(static_cast<double>(m.sample->kernel.bytes()) / us);
  }
  if (!flop_rates.empty()) peak_flops_per_us_ = Best(std::move(flop_rates));
  if (!byte_rates.empty()) bytes_per_us_ = Best(std::move(byte_rates));
  std::vector<std::pair<CpuTraffic::Bytes, double>> traffic;
  for (const auto& m : merged) {
    const double us = MedianOf(m.us);
    const Kernel& kernel = m.sample->kernel;
    if (us < kLeastTrafficUs || !IsTraffic(kernel.op_class)) continue;
    const WorkingSet& set = sets.at({m.sample->model, m.sample->batch});
    traffic.emplace_back(CpuTraffic::BytesOf(kernel, OctavesOf(kernel, MiB(set.activations))),
                         us - kDispatchUs);
  }
  traffic_ = CpuTraffic(traffic);
  for (int c = 0; c < model::kOpClassCount; ++c) {
    classes_[static_cast<size_t>(c)] = LocalRegressor(OptionsOf(static_cast<OpClass>(c)));
  }
  for (const auto& m : merged) {
    const Kernel& kernel = m.sample->kernel;
    const double us = std::max(MedianOf(m.us), 0.5);
    const WorkingSet& set = sets.at({m.sample->model, m.sample->batch});
    const double residual = std::log(us / Baseline(kernel, set));
    const uint32_t group = groups_.at(m.sample->model);
    exact_[model::GeometryKey(kernel)].push_back({us, group, WarmthCoordinates(kernel, set)});
    classes_[static_cast<size_t>(kernel.op_class)].Add(CpuCoordinates(kernel, set), residual,
                                                       group);
    all_.Add(PlainCoordinates(kernel), residual, group);
    ++kernels_;
  }
}

double CpuKernelModel::Baseline(const Kernel& k, const WorkingSet& set) const {
  const double compute = static_cast<double>(k.flops) / peak_flops_per_us_;
  if (Computes(k.op_class)) {
    const auto octaves = OctavesOf(k, MiB(set.activations));
    return compute + traffic_.Us(CpuTraffic::BytesOf(k, octaves)) + kDispatchUs;
  }
  return std::max(compute, static_cast<double>(k.bytes()) / bytes_per_us_) + kDispatchUs;
}

std::vector<uint32_t> CpuKernelModel::Groups(std::span<const std::string> models) const {
  std::vector<uint32_t> groups;
  for (const auto& name : models) {
    if (const auto it = groups_.find(name); it != groups_.end()) groups.push_back(it->second);
  }
  return groups;
}

CpuKernelTime CpuKernelModel::Predict(const Kernel& kernel, const WorkingSet& set,
                                      std::span<const std::string> without) const {
  CpuKernelTime out;
  out.baseline_us = Baseline(kernel, set);
  const auto groups = Groups(without);
  if (const auto it = exact_.find(model::GeometryKey(kernel)); it != exact_.end()) {
    std::vector<double> us;
    const auto warmth = WarmthCoordinates(kernel, set);
    for (const auto& point : it->second) {
      // Where the memory is much warmer or colder the same geometry is another measurement.
      double apart = 0;
      for (size_t i = 0; i < warmth.size(); ++i)
        apart = std::max(apart, std::abs(point.warmth[i] - warmth[i]));
      if (apart > kSameWarmth) continue;
      if (std::ranges::find(groups, point.group) == groups.end()) us.push_back(point.us);
    }
    if (!us.empty()) {
      out.latency_us = MedianOf(us);
      out.sigma = 0.05;
      out.measured = true;
      return out;
    }
  }
  const LocalRegressor& own = classes_[static_cast<size_t>(kernel.op_class)];
  auto answer = own.Predict(CpuCoordinates(kernel, set), groups);
  if (answer.nearest_distance > 1e8) {  // nothing of this op class
    answer = all_.Predict(PlainCoordinates(kernel), groups);
    answer.variance += 0.25;
    out.extrapolated = true;
  }
  out.extrapolated |= answer.nearest_distance > 2;
  out.latency_us = out.baseline_us * std::exp(std::clamp(answer.mean, -4.0, 5.0));
  out.sigma = std::sqrt(answer.variance) * deviation_[static_cast<size_t>(kernel.op_class)];
  return out;
}

void CpuKernelModel::FitDeviations(std::span<const Sample* const> samples,
                                   const std::function<std::string(const std::string&)>& family) {
  std::map<std::string, std::set<std::string>> families;
  std::vector<const Sample*> scored;
  for (const Sample* s : samples) {
    if (s->whole_model) continue;
    families[family(s->model)].insert(s->model);
    if (s->latency_us >= kLeastScoredUs) scored.push_back(s);
  }
  deviation_.fill(1);
  const WorkingSets sets = WorkingSetsOf(samples);
  std::array<std::vector<double>, model::kOpClassCount> ratios;
  const size_t step = std::max<size_t>(1, scored.size() / kMostScored);
  for (size_t i = 0; i < scored.size(); i += step) {
    const Sample& s = *scored[i];
    const auto& names = families.at(family(s.model));
    const std::vector<std::string> without(names.begin(), names.end());
    const auto t = Predict(s.kernel, sets.at({s.model, s.batch}), without);
    if (t.measured || t.sigma <= 0) continue;
    ratios[static_cast<size_t>(s.kernel.op_class)].push_back(
        std::abs(std::log(s.latency_us / t.latency_us)) / t.sigma);
  }
  for (size_t c = 0; c < ratios.size(); ++c) {
    auto& r = ratios[c];
    if (r.empty()) continue;
    const auto at = r.begin() + static_cast<ptrdiff_t>(0.8 * static_cast<double>(r.size() - 1));
    std::nth_element(r.begin(), at, r.end());
    const double n = static_cast<double>(r.size());
    // In log, shrunk towards 1 while there are few.
    deviation_[c] = std::exp(std::log(std::max(*at / kP90, 0.05)) * n / (n + kFewScored));
  }
}

}  // namespace hase::latency

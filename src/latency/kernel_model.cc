#include "latency/kernel_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/file.h"
#include "base/paths.h"
#include "cluster/catalogue.h"
#include "latency/calibration.h"
#include "latency/ensemble.h"

namespace hase::latency {
namespace {

using model::Kernel;
using model::Precision;
using model::Runtime;

constexpr std::string_view kConventions[] = {
    "tensorrt-engine", "pytorch-events", "tensorflow-session", "library-call",
    "serving-gemm",    "kernel-profile", "miopen-solver"};
static_assert(std::size(kConventions) == kConventionCount);

// Without trees: how far above the roofline kernels usually are, and how far that varies.
constexpr double kTypicalFactor = 1.8;
constexpr double kWideSigma = 0.45;
constexpr double kQuantile90 = 1.2815515655446004;  // of the standard normal
// An answer from another convention or precision than asked: its interval is so much wider.
constexpr double kExtrapolationWidening = 1.6;

// What the clock of isolated calls adds to every kernel and a stream of kernels does not: the least
// that event pairs around tiny calls read (24–31 us on the NVIDIA cards, 12–15 us on the AMD ones,
// of the elementwise rows) less a launch of some 3 us. The trees predict the isolated reading; the
// answer is the time in a stream.
// A convolution's least reading is 59 us at the start of a session, its own kernels being some 15.
constexpr double kIsolatedExtraNvidia = 21, kIsolatedExtraAmd = 10, kIsolatedExtraConv = 45;
constexpr double kLeastStreamMicros = 2.5;
constexpr double kStreamLaunchMicros = 10;

// The engine set is of one Volta card. On Maxwell and older its convolutions read too fast by this
// much (log; median of DeepBench's 158 training rows of an M40 and a GTX TITAN X: -0.34; on Pascal
// and Volta -0.08 to 0.06).
constexpr double kEngineOnMaxwell = 0.34;
bool IsMaxwell(const cluster::DeviceSpec& spec) {
  return spec.vendor == "NVIDIA" && spec.compute_capability > 0 && spec.compute_capability < 60;
}

double InStream(double isolated_us, const KernelOutput& o, Family family,
                const cluster::DeviceSpec& spec) {
  if (o.convention != Convention::kPyTorchEvents) return isolated_us;
  const double extra = family == Family::kConv ? kIsolatedExtraConv
                       : spec.vendor == "AMD"  ? kIsolatedExtraAmd
                                               : kIsolatedExtraNvidia;
  const double busy = std::min(isolated_us, std::max(o.compute_us, o.memory_us / 3));
  return std::max({isolated_us - extra, busy, kLeastStreamMicros});
}

// The convention whose rows come nearest to what `runtime` does for this kernel, and whether that
// is a stretch.
std::pair<Convention, bool> Choose(const Kernel& k, const KernelTarget& target) {
  const bool tensorrt = target.runtime == Runtime::kTensorRt;
  switch (FamilyOf(k)) {
    case Family::kConv: {
      if (target.spec->vendor == "AMD") return {Convention::kMiopenSolver, false};
      if (tensorrt) return {Convention::kTensorRtEngine, false};
      // The events set has 3×3 convolutions with stride 1 in fp32 only, of random channel counts.
      // For those of real networks, multiples of 16, libraries have better kernels: there the
      // engine set, of real networks, is nearer on most cards (DeepBench's training rows, medians
      // of engine and events: GTX 1080 Ti 16 and 32 %, TITAN X Pascal 14 and 25 %, V100 14 and 13
      // %, P100 17 and 13 %), but not on Maxwell and older (22–29 and 12–16 %).
      const bool measured = k.algorithm_gain() > 2 && k.precision == Precision::kFp32 &&
                            (k.inputs[0][1] % 16 != 0 || k.output[1] % 16 != 0 ||
                             target.spec->compute_capability < 60 || target.old_libraries);
      return measured ? std::pair{Convention::kPyTorchEvents, false}
                      : std::pair{Convention::kTensorRtEngine, true};
    }
    case Family::kGemm:
      if (k.precision == Precision::kFp16 || k.precision == Precision::kBf16) {
        return {Convention::kServingGemm, tensorrt};
      }
      if (k.precision == Precision::kInt8) return {Convention::kLibraryCall, tensorrt};
      return {Convention::kPyTorchEvents, tensorrt};
    case Family::kMemory:
      return {Convention::kPyTorchEvents, tensorrt};
  }
  return {Convention::kPyTorchEvents, true};
}

void FillFromRoofline(const Roofline& roof, KernelOutput& o) {
  o.roofline_us = roof.total_us();
  o.compute_us = roof.compute_us;
  o.memory_us = roof.memory_us;
  o.launch_us = roof.launch_us;
  o.latency_us = std::max(roof.total_us() * kTypicalFactor, roof.compute_us);
  o.shared_sigma = o.independent_sigma = kWideSigma / std::sqrt(2.0);
  o.p10_us = std::max(roof.compute_us, o.latency_us * std::exp(-kQuantile90 * kWideSigma));
  o.p90_us = o.latency_us * std::exp(kQuantile90 * kWideSigma);
  o.extrapolated = true;
}

// Kernels of one ensemble, gathered to be walked together.
struct Batch {
  const Ensemble* ensemble = nullptr;
  std::vector<size_t> index;
  std::vector<float> rows;
  TwinView twins;  // unseen cards
};

}  // namespace

std::string_view ToString(Convention c) { return kConventions[static_cast<size_t>(c)]; }

struct KernelModel::Impl {
  ModelFile file;

  void Answer(const Batch& batch, std::span<const Kernel* const> kernels,
              const KernelTarget& target, std::span<KernelOutput> out) const;
};

KernelModel::KernelModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelModel::KernelModel(KernelModel&&) noexcept = default;
KernelModel& KernelModel::operator=(KernelModel&&) noexcept = default;
KernelModel::~KernelModel() = default;

KernelModel KernelModel::RooflineOnly() { return KernelModel(std::make_unique<Impl>()); }

Result<KernelModel> KernelModel::Load(const std::filesystem::path& path) {
  HASE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(auto file, ReadModelFile(path.string(), bytes));
  // Files of earlier versions name their cards only.
  std::optional<cluster::Catalogue> catalogue;
  for (auto& e : file.ensembles) {
    if (e.specs.size() == e.devices.size()) continue;
    if (!catalogue) {
      HASE_ASSIGN_OR_RETURN(catalogue, cluster::Catalogue::Load());
    }
    e.specs.clear();
    for (const auto& name : e.devices) {
      HASE_ASSIGN_OR_RETURN(auto spec, catalogue->Find(name));
      e.specs.push_back(std::move(spec));
    }
  }
  return FromFile(std::move(file));
}

Result<KernelModel> KernelModel::LoadShipped() {
  HASE_ASSIGN_OR_RETURN(const auto path, DataFile("predictor.bin"));
  return Load(path);
}

KernelModel KernelModel::FromFile(ModelFile file) {
  auto impl = std::make_unique<Impl>();
  impl->file = std::move(file);
  return KernelModel(std::move(impl));
}

const ModelFile& KernelModel::file() const { return impl_->file; }

void KernelModel::Impl::Answer(const Batch& batch, std::span<const Kernel* const> kernels,
                               const KernelTarget& target, std::span<KernelOutput> out) const {
  const Ensemble& e = *batch.ensemble;
  const size_t count = batch.index.size(), known = e.devices.size();
  const bool seen = e.DeviceIndex(target.spec->name) >= 0;
  std::vector<float> log_ratio(count), size(count), experts;
  if (seen) {
    e.PredictSeen(batch.rows, log_ratio);
    e.SizeOf(batch.rows, size);
  } else {
    e.PredictUnseen(batch.rows, batch.twins, log_ratio,
                    target.calibration != nullptr ? &experts : nullptr, &size);
    for (float& s : size) s = e.UnseenSize(s);
  }
  const Correction* correction = nullptr;
  if (target.calibration != nullptr) {
    const auto it = target.calibration->corrections.find({e.family, e.convention});
    if (it != target.calibration->corrections.end()) correction = &it->second;
  }
  for (size_t i = 0; i < count; ++i) {
    const Kernel& kernel = *kernels[batch.index[i]];
    KernelOutput& o = out[batch.index[i]];
    double log_time = log_ratio[i] + std::log(o.roofline_us);
    auto bounds =
        e.IntervalFor(size[i], target.spec->name, kernel.op_class, kernel.precision, seen);
    double shared = seen ? e.shared_sigma : e.unseen_shared_sigma;
    if (correction != nullptr) {
      CalibrationPoint point;
      point.physics =
          PhysicsTerms(e.family, std::span(batch.rows).subspan(i * e.width(), e.width()));
      if (!experts.empty()) {
        point.experts.assign(experts.begin() + static_cast<int64_t>(i * known),
                             experts.begin() + static_cast<int64_t>((i + 1) * known));
      }
      point.op_class = static_cast<int>(kernel.op_class);
      log_time += correction->At(point);
      if (!seen) {
        bounds = {-kQuantile90 * correction->residual(), kQuantile90 * correction->residual()};
        shared = std::min(shared, correction->residual() / 2);
      }
    } else if (target.calibration != nullptr) {
      log_time += target.calibration->overall_offset;
    } else if (e.convention == Convention::kTensorRtEngine && IsMaxwell(*target.spec)) {
      log_time += kEngineOnMaxwell;
    }
    if (o.extrapolated)
      bounds = {bounds.low * kExtrapolationWidening, bounds.high * kExtrapolationWidening};
    o.latency_us = std::max(InStream(std::exp(log_time), o, e.family, *target.spec), o.compute_us);
    o.p10_us = std::max(o.compute_us, o.latency_us * std::exp(std::min(0.0, bounds.low)));
    o.p90_us = o.latency_us * std::exp(std::max(0.0, bounds.high));
    // What the isolated call's clock included is not the stream's.
    if (o.launch_us > kStreamLaunchMicros && o.convention == Convention::kPyTorchEvents) {
      o.roofline_us += kStreamLaunchMicros - o.launch_us;
      o.launch_us = kStreamLaunchMicros;
    }
    const double sigma = (bounds.high - bounds.low) / (2 * kQuantile90);
    o.shared_sigma = o.extrapolated ? shared * kExtrapolationWidening : shared;
    o.independent_sigma =
        std::sqrt(std::max(sigma * sigma - o.shared_sigma * o.shared_sigma, 0.25 * sigma * sigma));
  }
}

KernelOutput KernelModel::Predict(const Kernel& kernel, const KernelTarget& target) const {
  KernelOutput out;
  const Kernel* one = &kernel;
  PredictMany({&one, 1}, target, {&out, 1});
  return out;
}

void KernelModel::PredictMany(std::span<const Kernel* const> kernels, const KernelTarget& target,
                              std::span<KernelOutput> out) const {
  HASE_CHECK(kernels.size() == out.size(), "{} kernels, {} outputs", kernels.size(), out.size());
  std::map<const Ensemble*, Batch> batches;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = *kernels[i];
    auto [convention, stretched] = Choose(kernel, target);
    if (target.convention) {
      convention = *target.convention;
      stretched = false;
    }
    const Family family = FamilyOf(kernel);
    const Ensemble* ensemble = target.spec->kind == cluster::DeviceKind::kGpu
                                   ? impl_->file.Find(family, convention)
                                   : nullptr;
    const Features features = ComputeFeatures(kernel, target, convention);
    out[i] = {};
    out[i].convention = convention;
    FillFromRoofline(features.roofline, out[i]);
    if (ensemble == nullptr) continue;
    const auto cell = fmt::format("{}|{}", ToString(kernel.op_class), ToString(kernel.precision));
    out[i].extrapolated = stretched || !ensemble->cells.contains(cell);
    Batch& batch = batches[ensemble];
    batch.ensemble = ensemble;
    batch.index.push_back(i);
    batch.rows.insert(batch.rows.end(), features.values.begin(), features.values.end());
    if (ensemble->DeviceIndex(target.spec->name) < 0) {
      ensemble->AddTwin(kernel, *target.spec, batch.twins);
    }
  }
  for (const auto& [ensemble, batch] : batches) impl_->Answer(batch, kernels, target, out);
}

std::vector<std::pair<std::string, double>> KernelModel::Explain(const Kernel& kernel,
                                                                 const KernelTarget& target) const {
  const auto convention = target.convention ? *target.convention : Choose(kernel, target).first;
  const Features features = ComputeFeatures(kernel, target, convention);
  const auto& names = FeatureNames(FamilyOf(kernel));
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], features.values[i]);
  return out;
}

std::string KernelModel::Describe() const {
  return impl_->file.ensembles.empty() ? "roofline only, no trees" : impl_->file.trained_on;
}

}  // namespace hase::latency

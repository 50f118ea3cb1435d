// Ensemble: the trees of one (family, timing convention), the devices they were trained on, and how
// wrong they were on rows they never saw.
//
// A device with training rows is answered by its own identity. A device without is answered three
// times: by the trees' own extrapolation, by the mean of the known cards put in its place (its
// shape features, their identity), and by its twin, the nearest known card, whose ratio of time to
// roofline is carried over. They are averaged in the log: each alone fails on some card.
// Errors: a second, small set of trees predicts how large the error of a row is (in the log), and
// conformal quantiles of error / size turn that into an interval (Romano et al., "Conformalized
// Quantile Regression", 2019; Lei et al., 2018); for unseen devices quantiles of the errors on
// devices left out in turn.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "latency/features.h"
#include "latency/trees.h"

namespace hase::latency {

struct Quantiles {
  double low = -1, high = 1;  // of error / size
  int64_t rows = 0;
};

// Kernels of an unseen card as a known card sees them: features of that card, row after row, and
// how far it is trusted with each (0 to 1).
struct TwinView {
  std::vector<float> rows, trust;
};

class Ensemble {
 public:
  // An unseen card is walked through the trees once for each known one, and once as nobody's.
  static constexpr size_t kMostDevices = Trees::kMaxEndings - 1;
  Family family = Family::kConv;
  Convention convention = Convention::kPyTorchEvents;
  std::vector<std::string> devices;            // catalogue names, in training order
  std::vector<std::vector<float>> identities;  // of each: its identity features
  std::vector<cluster::DeviceSpec> specs;      // of each, as far as features need it
  std::map<std::string, int64_t> cells;        // "op_class|precision" -> training rows
  PackedTrees trees;                           // log(time / roofline)
  PackedTrees size;                            // log of the error's size; may be empty
  // "device|op_class|precision", "|op_class|precision", "" -> quantiles of error / size.
  std::map<std::string, Quantiles> seen;
  // "op_class", "" -> quantiles of the error on left-out devices / its size.
  std::map<std::string, Quantiles> unseen;
  std::map<std::string, Quantiles> unseen_plain;  // the same, of the error itself; in training only
  // The size of an unseen card's error: this and how far opinions lie apart; negative: always 1.
  double unseen_floor = -1;
  double shared_sigma = 0.05, unseen_shared_sigma = 0.2;

  size_t width() const { return FeatureNames(family).size(); }
  // Index into devices, or -1.
  int DeviceIndex(std::string_view catalogue_name) const;
  // log(time / roofline) of `rows` (row-major, width() each) on a device with training rows.
  void PredictSeen(std::span<const float> rows, std::span<float> out) const;
  // The same on one device without. `experts`, if not null, gets one value per row and known device
  // (row-major): what each known card would have said. `except`: a device index to leave out.
  // `spread`, if not null, gets how far the opinions lie apart (deviation, log scale).
  void PredictUnseen(std::span<const float> rows, const TwinView& twins, std::span<float> out,
                     std::vector<float>* experts, std::vector<float>* spread,
                     int except = -1) const;
  // The known card nearest to `spec` in the peak of this precision and in bandwidth (least sum of
  // |log ratio|), or -1.
  int Nearest(const cluster::DeviceSpec& spec, model::Precision precision, int except = -1) const;
  // Appends the kernel as the nearest known card sees it, trusted the more the more alike the two
  // balance compute and bandwidth. Nothing where fewer than three cards are
  // known: how far one may stand for another was only tried where there are more.
  void AddTwin(const model::Kernel& kernel, const cluster::DeviceSpec& spec, TwinView& twins,
               int except = -1, double session_place = 0) const;
  // Log-scale distances of the 10 % and 90 % quantiles from the prediction.
  struct Bounds {
    double low = 0, high = 0;
  };
  // The size of the error expected of each row, log scale.
  void SizeOf(std::span<const float> rows, std::span<float> out) const;
  float UnseenSize(float spread) const {
    return unseen_floor < 0 ? 1 : static_cast<float>(unseen_floor) + spread;
  }
  Bounds IntervalFor(double size, std::string_view device, model::OpClass op_class,
                     model::Precision precision, bool is_seen) const;
};

// All ensembles, as predictor.bin keeps them: a JSON header (readable with `head -c`), then each
// ensemble's trees as .xz data.
struct ModelFile {
  std::string trained_on;  // one line: data sets, rows, options
  std::vector<Ensemble> ensembles;
  const Ensemble* Find(Family family, Convention convention) const;
};
Result<std::string> WriteModelFile(const ModelFile& file);
Result<ModelFile> ReadModelFile(std::string name, std::string_view bytes);

}  // namespace hase::latency

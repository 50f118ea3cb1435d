// Ensemble: the trees of one (family, timing convention), the devices they were trained on, and how
// wrong they were on rows they never saw.
//
// A device with training rows is answered by its own identity. A device without is answered twice,
// by the trees' own extrapolation and by the mean of the known cards put in its place (its shape
// features, their identity), and the two are averaged in the log: each alone fails on some card.
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
  double low = -1, high = 1;  // of error / size (seen) or of the log error itself (unseen)
  int64_t rows = 0;
};

class Ensemble {
 public:
  Family family = Family::kConv;
  Convention convention = Convention::kPyTorchEvents;
  std::vector<std::string> devices;            // catalogue names, in training order
  std::vector<std::vector<float>> identities;  // of each: its identity features
  std::map<std::string, int64_t> cells;        // "op_class|precision" -> training rows
  Trees trees;                                 // log(time / roofline)
  Trees size;                                  // log of the error's size; may be empty
  // "device|op_class|precision", "|op_class|precision", "" -> quantiles of error / size.
  std::map<std::string, Quantiles> seen;
  // "op_class", "" -> quantiles of the log error on left-out devices.
  std::map<std::string, Quantiles> unseen;
  double shared_sigma = 0.05, unseen_shared_sigma = 0.2;

  size_t width() const { return trees.feature_count(); }
  // Index into devices, or -1.
  int DeviceIndex(std::string_view catalogue_name) const;
  // log(time / roofline) of `rows` (row-major, width() each) on a device with training rows.
  void PredictSeen(std::span<const float> rows, std::span<float> out) const;
  // The same on a device without. `experts`, if not null, gets one value per row and known device
  // (row-major): what each known card would have said. `except`: a device index to leave out.
  void PredictUnseen(std::span<const float> rows, std::span<float> out, std::vector<float>* experts,
                     int except = -1) const;
  // Log-scale distances of the 10 % and 90 % quantiles from the prediction.
  struct Bounds {
    double low = 0, high = 0;
  };
  // The size of the error expected of each row, log scale.
  void SizeOf(std::span<const float> rows, std::span<float> out) const;
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

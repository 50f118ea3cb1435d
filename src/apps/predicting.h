// Predicting: the shipped predictor with everything it borrows, put together once for run, demo,
// simulate, plan and predict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "latency/predictor.h"

namespace hase::apps {

class Predicting {
 public:
  // Loads the trained trees if a type is a GPU (without the file: roofline only, every GPU estimate
  // extrapolated, and a note says so) and the memory coefficients. Borrows the library.
  static Result<std::unique_ptr<Predicting>> Make(const model::ModelLibrary* library,
                                                  std::vector<cluster::DeviceType> types,
                                                  std::vector<latency::Sample> samples,
                                                  std::vector<std::string> without = {});

  const latency::Predictor& predictor() const { return *predictor_; }
  // What makes these predictions worse than they could be; to be shown.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  explicit Predicting(const model::ModelLibrary* library) : kernels_(library) {}

  latency::LibraryKernels kernels_;
  std::unique_ptr<latency::KernelModel> trees_;
  std::unique_ptr<latency::Predictor> predictor_;
  std::vector<std::string> notes_;
};

}  // namespace hase::apps

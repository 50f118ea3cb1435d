// random: jobs in order of arrival, each on a free device drawn at random; a job that finds none is
// passed over. The draw depends on seed, job and device only, so a plan can be repeated. Kept as
// baseline and as a fuzzer of the engine. Source: random dispatch, as in Mitzenmacher, "The power
// of two choices in randomized load balancing" (2001).
#include "base/rng.h"
#include "placement/policies/factories.h"
#include "placement/policies/greedy.h"

namespace hase::placement {
namespace {

class Random final : public Greedy {
 public:
  Random(bool sharing, uint64_t seed) : Greedy(sharing, /*strict=*/false), seed_(seed) {}

 private:
  double Score(const PlanningView&, const PlanBook&, const QueuedJob& job,
               const Slot& slot) override {
    const uint64_t pair = (uint64_t{job.id.index()} << 32) | slot.device.index();
    return Rng(seed_ ^ (pair * 0x9e3779b97f4a7c15ULL)).Uniform();
  }
  std::string Why() const override { return "drawn at random among the free devices"; }

  uint64_t seed_;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakeRandom(std::string_view options) {
  OptionText text("random", options);
  bool sharing = false;
  int64_t seed = 1;
  text.Flag("sharing", sharing);
  text.Integer("seed", 0, INT64_MAX, seed);
  HASE_RETURN_IF_ERROR(text.Finish());
  return std::make_unique<Random>(sharing, static_cast<uint64_t>(seed));
}

}  // namespace hase::placement

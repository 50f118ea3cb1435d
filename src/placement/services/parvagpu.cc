// parvagpu: MIG slices with several processes of one model inside (Lee et al., "ParvaGPU: efficient
// spatial GPU sharing for large-scale DNN inference in cloud environments", SC 2024). For each
// service and slice size the (batch, processes) of greatest rate within the objective — a triplet;
// the optimal segment is the triplet of greatest rate per slice. A service gets as many optimal
// segments as its rate holds, and the smallest segment that serves the remainder. Segments are
// placed largest first, on the first device with room (allocation), and different models never
// share a slice, so there is no interference. A device without MIG is one segment of its own.
//
// Left out: their last step, which breaks up segments of thinly used devices to save whole devices.
#include <algorithm>
#include <array>
#include <cmath>

#include "placement/services/rival_plans.h"
#include "placement/services/rivals.h"

namespace hase::placement {
namespace {

using cluster::ShareMode;
constexpr int kMostProcesses = 3;

struct Triplet {
  const ShareStep* step = nullptr;
  Choice choice;
  int slices = 0;
};

struct Card {
  const DeviceState* state = nullptr;
  bool mig = false;
  int slices = 7, memory_eighths = 8;
};

int MemoryEighths(int slices) {
  return static_cast<int>(std::lround(8 * latency::MigMemoryFraction(slices)));
}

class Segments {
 public:
  explicit Segments(const RivalProblem& problem) : table_(problem.table()) {
    for (const size_t d : problem.DevicesBySpeed()) {
      const DeviceState& state = table_.view().devices[d];
      const bool mig =
          std::find(state.modes.begin(), state.modes.end(), ShareMode::kMig) != state.modes.end();
      cards_.push_back({&state, mig, 7, 8});
    }
  }

  // Triplets of the service on the type, one per slice size that can serve it.
  std::vector<Triplet> Triplets(size_t service, const Card& card) const {
    std::vector<Triplet> triplets;
    const auto mode = card.mig ? ShareMode::kMig : ShareMode::kExclusive;
    for (int processes = 1; processes <= kMostProcesses; ++processes) {
      const Capacity& capacity = table_.OfProcesses(service, card.state->type, mode, processes);
      for (const auto& step : capacity.steps) {
        const Choice choice =
            capacity.Best(step, card.state->speed_factor, table_.SloSeconds(service));
        if (choice.option == nullptr) continue;
        const int slices = card.mig ? latency::MigSlices(step.grant.share) : 7;
        const double part = card.mig ? latency::MigMemoryFraction(slices) : 1;
        if (choice.option->memory > Scale(card.state->memory_total, part)) continue;
        auto same = std::find_if(triplets.begin(), triplets.end(),
                                 [&](const Triplet& t) { return t.slices == slices; });
        if (same == triplets.end())
          triplets.push_back({&step, choice, slices});
        else if (choice.rate_rps > same->choice.rate_rps)
          *same = {&step, choice, slices};
      }
    }
    return triplets;
  }

  bool Place(size_t service, double rate) {
    for (int k = 0; k < 128 && rate > 1e-9; ++k) {
      bool placed = false;
      for (Card& card : cards_) {
        if (card.slices == 0) continue;
        auto wish = Wanted(service, card, rate);
        if (!wish) continue;
        Take(card, service, *wish, std::min(rate, wish->choice.rate_rps));
        rate -= std::min(rate, wish->choice.rate_rps);
        placed = true;
        break;
      }
      if (!placed) return false;
    }
    return true;
  }

  std::vector<Instance> instances;

 private:
  // The optimal segment while the rate fills it, else the smallest that serves what is left;
  // nullopt if the card has no room for it.
  std::optional<Triplet> Wanted(size_t service, const Card& card, double rate) const {
    const auto triplets = Triplets(service, card);
    const Triplet* best = nullptr;
    for (const Triplet& t : triplets)
      if (Fits(card, t) &&
          (best == nullptr || t.choice.rate_rps / t.slices > best->choice.rate_rps / best->slices))
        best = &t;
    if (best == nullptr) return std::nullopt;
    if (rate >= best->choice.rate_rps) return *best;
    const Triplet* least = best;
    for (const Triplet& t : triplets)
      if (Fits(card, t) && t.choice.rate_rps >= rate && t.slices < least->slices) least = &t;
    return *least;
  }
  static bool Fits(const Card& card, const Triplet& t) {
    return t.slices <= card.slices && (!card.mig || MemoryEighths(t.slices) <= card.memory_eighths);
  }
  void Take(Card& card, size_t service, const Triplet& t, double rate) {
    card.slices -= t.slices;
    card.memory_eighths -= card.mig ? MemoryEighths(t.slices) : 8;
    Instance i;
    i.service = table_.Demand(service).id;
    i.device = card.state->id;
    i.share = t.step->grant.share;
    i.mode = t.step->grant.mode;
    i.batch = t.choice.batch;
    i.rate_rps = rate;
    i.processes = t.step->grant.processes;
    i.slot = static_cast<int>(instances.size());
    instances.push_back(i);
  }

  const CapacityTable& table_;
  std::vector<Card> cards_;
};

}  // namespace

ServicePlan ParvaGpuPolicy::Decide(const ServiceView& view) {
  const RivalProblem problem(view);
  ServicePlan plan;
  plan.rejected = problem.rejected();
  const Attempt attempt =
      [&](std::span<const double> rates) -> std::optional<std::vector<Instance>> {
    Segments segments(problem);
    for (const size_t s : problem.services())
      if (!segments.Place(s, rates[s])) return std::nullopt;
    return segments.instances;
  };
  if (objective_ == ServiceObjective::kMaxThroughput) {
    plan.instances = GreatestRates(problem.table(), attempt);
  } else {
    std::vector<double> rates;
    for (const auto& d : view.services) rates.push_back(d.rate_rps);
    if (auto instances = attempt(rates)) plan.instances = std::move(*instances);
  }
  return plan;
}

}  // namespace hase::placement

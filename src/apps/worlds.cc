#include "apps/worlds.h"

#include <fmt/core.h>

#include <bit>

#include "apps/predicting.h"
#include "base/file.h"
#include "base/paths.h"
#include "latency/table_estimator.h"
#include "world/law_world.h"
#include "world/residual_world.h"
#include "world/table_world.h"

namespace hase::apps {
namespace {

using execution::SimCase;

Result<std::unique_ptr<world::World>> MakeTableWorld(const SimFlags& flags, const SimCase& sim) {
  const std::string& path = flags.truth.empty() ? flags.estimates : flags.truth;
  if (path.empty()) {
    return Usage("world W1 needs --truth times.csv (measured rows; `hase import` writes them)");
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto world = ExactWorld(sim);
  if (!flags.truth.empty()) {
    HASE_ASSIGN_OR_RETURN(*world, world::TableWorld::Parse(path, text, sim.models, sim.cluster));
  }
  if (!flags.slowdown.empty()) {
    HASE_ASSIGN_OR_RETURN(const std::string pairs, ReadFile(flags.slowdown));
    HASE_ASSIGN_OR_RETURN(auto table,
                          cluster::SlowdownTable::Parse(flags.slowdown, pairs, sim.models));
    world->SetSlowdowns(std::move(table));
  }
  return world;
}

Result<std::unique_ptr<world::World>> MakeResidualWorld(const SimFlags& flags, uint64_t seed,
                                                        const SimCase& sim) {
  std::string path = flags.residuals;
  if (path.empty()) {
    const auto shipped = DataFile("residuals.csv");
    if (!shipped) {
      return Usage("world W2 needs --residuals FILE (`hase evaluate --residuals` writes it)");
    }
    path = shipped->string();
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(auto blocks, world::ParseResiduals(path, text));
  const latency::Estimator* estimator = sim.estimator.get();
  const auto solo = [estimator](ModelId model, DeviceTypeId type,
                                int64_t batch) -> std::optional<world::Solo> {
    const auto* e = estimator->Find(model, type, batch);
    if (!e) return std::nullopt;
    return world::Solo{e->latency_s, e->load_s, e->memory()};
  };
  const auto law = [estimator](DeviceTypeId type, const world::Occupant& self,
                               std::span<const world::Occupant> others) {
    std::vector<latency::Tenant> tenants;
    for (const auto& o : others) tenants.push_back({o.model, o.batch, o.share});
    return estimator->Slowdown({self.model, self.batch, self.share}, type, tenants, {});
  };
  return std::make_unique<world::ResidualWorld>(sim.cluster, solo, law, std::move(blocks), seed);
}

Result<std::unique_ptr<world::World>> MakeLawWorld(uint64_t seed, const SimCase& sim,
                                                   world::CardDraws draws) {
  if (!sim.library) {
    return Usage("world W3 needs models with kernel lists: zoo names or *.kernels.json files");
  }
  HASE_ASSIGN_OR_RETURN(const auto path, DataFile("w3.yaml"));
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(const auto parameters, world::ParseLawParameters(path.string(), text));
  const model::ModelLibrary* library = sim.library.get();
  const auto kernels = [library](ModelId model, model::Runtime runtime,
                                 int64_t batch) -> const model::ModelKernels* {
    const auto list = library->Kernels(model, runtime, batch);
    return list ? *list : nullptr;
  };
  return std::make_unique<world::LawWorld>(sim.cluster, kernels, parameters, seed, draws);
}

// A plain roofline at half the peak and seven tenths of the bandwidth: sizes generated jobs, and
// nothing else.
std::optional<double> ReferenceSeconds(const model::ModelLibrary& library, ModelId model,
                                       const cluster::DeviceType& type, int64_t batch) {
  const auto list = library.Kernels(model, type.runtime, batch);
  if (!list) return std::nullopt;
  const double flops = type.spec.peak_tflops[0] * 0.5e12;
  const double bytes = type.spec.bandwidth_gb_s * 0.7e9;
  if (flops <= 0 || bytes <= 0) return std::nullopt;
  double seconds = 0;
  for (const auto& k : (*list)->kernels) {
    seconds +=
        std::max(static_cast<double>(k.flops) / flops, static_cast<double>(k.bytes()) / bytes) +
        5e-6;
  }
  return seconds / ToFraction(type.quota);
}

// The predictor together with what it borrows. Batches that are powers of two, which nearly all
// are, are looked up without hashing: a simulation asks millions of times.
class OwnedPredictor : public latency::Estimator {
 public:
  OwnedPredictor(std::unique_ptr<Predicting> predicting, size_t models, size_t types)
      : predicting_(std::move(predicting)), types_(types), known_(models * types * kPowers) {}
  const latency::Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override {
    const auto bits = static_cast<uint64_t>(batch);
    const size_t row = (model.index() * types_ + type.index()) * kPowers;
    if (batch >= (int64_t{1} << kPowers) || !std::has_single_bit(bits) || row >= known_.size()) {
      return predicting_->predictor().Find(model, type, batch);
    }
    Known& known = known_[row + static_cast<size_t>(std::countr_zero(bits))];
    if (!known.asked) known = {true, predicting_->predictor().Find(model, type, batch)};
    return known.estimate;
  }
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override {
    return predicting_->predictor().WhyNot(model, type, batch);
  }
  double Slowdown(const latency::Tenant& tenant, DeviceTypeId type,
                  std::span<const latency::Tenant> others,
                  const latency::ForeignLoad& foreign) const override {
    return predicting_->predictor().Slowdown(tenant, type, others, foreign);
  }

 private:
  static constexpr size_t kPowers = 12;
  struct Known {
    bool asked = false;
    const latency::Estimate* estimate = nullptr;
  };
  std::unique_ptr<Predicting> predicting_;
  size_t types_;
  mutable std::vector<Known> known_;
};

}  // namespace

std::unique_ptr<world::TableWorld> ExactWorld(const SimCase& sim) {
  auto world = std::make_unique<world::TableWorld>(sim.cluster);
  for (const auto& job : sim.jobs) {
    for (uint32_t t = 0; t < sim.cluster.types.size(); ++t) {
      const auto* e = sim.estimator->Find(job.model, DeviceTypeId(t), job.job.batch);
      if (!e) continue;
      world->Set(job.model, DeviceTypeId(t), job.job.batch, {e->latency_s, e->load_s, e->memory()});
    }
  }
  return world;
}

Result<std::unique_ptr<world::World>> MakeWorld(const SimFlags& flags, uint64_t seed,
                                                const SimCase& sim, world::CardDraws draws) {
  if (flags.world == "W1") return MakeTableWorld(flags, sim);
  if (flags.world == "W2") return MakeResidualWorld(flags, seed, sim);
  if (flags.world == "W3") return MakeLawWorld(seed, sim, draws);
  return Usage(
      fmt::format("--world {}: W1 (table), W2 (residuals) or W3 (other law)", flags.world));
}

Result<std::unique_ptr<model::ModelLibrary>> MakeLibrary(const SimCase& sim) {
  HASE_ASSIGN_OR_RETURN(const auto folder, DataDir());
  auto library = std::make_unique<model::ModelLibrary>(folder);
  for (uint32_t i = 0; i < sim.models.size(); ++i) {
    const auto& ref = sim.models[ModelId(i)];
    HASE_ASSIGN_OR_RETURN(const ModelId id,
                          library->Intern({ref.name, ref.runtime, ref.precision}));
    if (id != ModelId(i)) return Invalid(fmt::format("model {} has two ids", ref.name));
  }
  return library;
}

Result<std::unique_ptr<latency::Estimator>> MakePredictor(const SimCase& sim,
                                                          std::vector<latency::Sample> samples) {
  HASE_ASSIGN_OR_RETURN(auto predicting,
                        Predicting::Make(sim.library.get(), sim.cluster.types, std::move(samples)));
  return std::make_unique<OwnedPredictor>(std::move(predicting), sim.models.size(),
                                          sim.cluster.types.size());
}

Result<workload::SpeedTable> GeneratorSpeeds(const SimFlags& flags, const SimCase& sim) {
  if (!flags.estimates.empty()) {
    HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.estimates));
    auto models = std::make_shared<model::ModelTable>();  // shared: lives as long as the table
    for (const auto& family : workload::ModelFamilies()) {
      for (const auto& name : family) models->Intern({name, std::nullopt, model::Precision::kFp32});
    }
    HASE_ASSIGN_OR_RETURN(auto parsed, latency::TableEstimator::Parse(flags.estimates, text,
                                                                      *models, sim.cluster.types));
    auto table = std::make_shared<latency::TableEstimator>(std::move(parsed));
    return workload::SpeedTable([models, table](const std::string& model, DeviceTypeId type,
                                                int64_t batch) -> std::optional<double> {
      const auto id = models->Find({model, std::nullopt, model::Precision::kFp32});
      const auto* e = id ? table->Find(*id, type, batch) : nullptr;
      return e ? std::optional(e->latency_s) : std::nullopt;
    });
  }
  HASE_ASSIGN_OR_RETURN(const auto folder, DataDir());
  auto library = std::make_shared<model::ModelLibrary>(folder);
  const auto* types = &sim.cluster.types;
  return workload::SpeedTable([library, types](const std::string& model, DeviceTypeId type,
                                               int64_t batch) -> std::optional<double> {
    const auto id = library->Intern({model, std::nullopt, model::Precision::kFp32});
    if (!id) return std::nullopt;
    return ReferenceSeconds(*library, *id, (*types)[type.index()], batch);
  });
}

}  // namespace hase::apps

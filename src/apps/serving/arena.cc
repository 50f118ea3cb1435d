#include "apps/serving/arena.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "placement/services/capacity.h"
#include "placement/services/queueing.h"
#include "placement/services/refusal.h"

namespace hase::serving {
namespace {

using cluster::ShareMode;

// Of a GPU's memory, what the driver and the framework's context leave.
constexpr double kUsableMemory = 0.95;
// Requests that a percentile is judged on at least, and how long a run may be.
constexpr double kRequestsJudged = 8000, kLeastSeconds = 20, kMostSeconds = 400;

world::BatchWork WorkOf(const latency::Estimate& e) {
  world::BatchWork work;
  work.latency_s = e.latency_s;
  work.compute_part = e.compute_part;
  work.dram_part = e.bandwidth_part;
  work.host_part = e.launch_part;
  const double compute_s = e.latency_s * e.compute_part;
  work.parallelism =
      compute_s > 0 ? std::clamp(e.sm_demand * e.latency_s / compute_s, 0.05, 1.0) : 1;
  work.load_s = e.load_s;
  work.memory = e.memory();
  return work;
}

// Tables may hold a few batches only: what lies between is interpolated in the latency, with the
// other figures of the batch above.
world::WorkTable WorkFrom(const latency::Estimator& estimator) {
  return [&estimator](ModelId model, DeviceTypeId type, int64_t batch) -> world::BatchWork {
    if (const auto* exact = estimator.Find(model, type, batch)) return WorkOf(*exact);
    int64_t above = batch + 1, below = batch - 1;
    while (above < 2 * batch + 2 && estimator.Find(model, type, above) == nullptr) ++above;
    while (below > 0 && estimator.Find(model, type, below) == nullptr) --below;
    const auto* hi = estimator.Find(model, type, above);
    const auto* lo = below > 0 ? estimator.Find(model, type, below) : nullptr;
    if (hi == nullptr) return lo != nullptr ? WorkOf(*lo) : world::BatchWork{};
    world::BatchWork work = WorkOf(*hi);
    if (lo != nullptr)
      work.latency_s = lo->latency_s + (hi->latency_s - lo->latency_s) *
                                           static_cast<double>(batch - below) /
                                           static_cast<double>(above - below);
    return work;
  };
}

world::ServingInstance InWorld(const placement::Instance& i, ModelId model) {
  world::ServingInstance instance;
  instance.service = i.service;
  instance.server = {model, i.device, i.share, i.mode, i.batch, i.slot};
  instance.processes = i.processes;
  instance.max_wait_s = ToSeconds(i.max_wait);
  instance.weight = std::max(1e-9, i.rate_rps);
  return instance;
}

}  // namespace

Arena::Arena(ServingCase given, const world::ServingLawParameters& law, uint64_t seed,
             bool profiled)
    : given_(std::move(given)) {
  for (const auto& device : given_.cluster.devices) {
    const auto& type = given_.cluster.types[device.type.index()];
    placement::DeviceState state;
    state.id = device.id;
    state.type = device.type;
    state.node = device.node;
    state.memory_total = Scale(type.spec.memory, kUsableMemory);
    state.modes = device.modes;
    devices_.push_back(std::move(state));
    prices_.push_back(device.price_per_hour > 0 ? device.price_per_hour : type.spec.price_per_hour);
  }
  for (uint32_t s = 0; s < given_.services.size(); ++s) {
    const auto& service = given_.services[s];
    demands_.push_back({ServiceId(s), given_.models[s], service.rate.front().rate_rps,
                        service.slo_ms, service.slo_percentile, service.max_batch});
  }
  truth_ =
      std::make_unique<world::LawTruth>(given_.cluster, WorkFrom(*given_.estimator), law, seed);
  model_ = std::make_unique<latency::ServiceModel>(*given_.estimator, given_.cluster.types);
  if (profiled) {
    ProfileAll(seed);
    CompareCards(Rng(seed).Split("cards"));
    ProfilePairs(Rng(seed).Split("pairs"));
  }
  const auto view = View();
  const placement::CapacityTable table(view, *model_);
  for (size_t s = 0; s < demands_.size(); ++s)
    servable_.push_back(!placement::WhyNever(table, s).has_value());
}

void Arena::ProfileAll(uint64_t seed) {
  Rng noise = Rng(seed).Split("profile");
  std::set<std::pair<uint32_t, uint32_t>> done;
  for (size_t s = 0; s < demands_.size(); ++s)
    for (const auto& device : given_.cluster.devices) {
      const ModelId model = demands_[s].model;
      if (!done.emplace(model.index(), device.type.index()).second) continue;
      if (given_.estimator->Find(model, device.type, 1) == nullptr) continue;
      auto mode = placement::DivisionMode(device.modes);
      std::vector<latency::SurfacePoint> points;
      for (const int64_t batch :
           {int64_t{1}, std::min<int64_t>(8, demands_[s].max_batch), demands_[s].max_batch})
        for (const int milli : {150, 400, 1000}) {
          world::Server server{model, device.id, MilliShare(milli), mode, batch, 0};
          if (mode == ShareMode::kMig)
            server.share = MilliShare(milli == 1000 ? 1000 : milli == 400 ? 571 : 286);
          const double seconds = truth_->BatchSeconds(server, batch) * truth_->Noise(noise);
          points.push_back({batch, {server.share, mode, 1}, seconds});
        }
      model_->Profile(model, device.type, points);
      const int64_t batch = std::min<int64_t>(8, demands_[s].max_batch);
      const world::Server whole{model, device.id, kWholeDevice, ShareMode::kExclusive, batch, 0};
      model_->SetTraffic(model, device.type, batch,
                         truth_->DramActive(whole, batch) * truth_->Noise(noise));
    }
}

// Equal cards differ: three runs on each against the same on the first of its type, where the
// profiles were taken.
void Arena::CompareCards(Rng noise) {
  for (auto& device : devices_) {
    const auto first = std::find_if(devices_.begin(), devices_.end(),
                                    [&](const auto& d) { return d.type == device.type; });
    if (first->id == device.id ||
        given_.estimator->Find(demands_[0].model, device.type, 1) == nullptr)
      continue;
    double sum = 0;
    for (int k = 0; k < 3; ++k) {
      world::Server here{demands_[0].model, device.id, kWholeDevice, ShareMode::kExclusive, 1, 0};
      const double mine = truth_->BatchSeconds(here, 1) * truth_->Noise(noise);
      here.device = first->id;
      sum += mine / (truth_->BatchSeconds(here, 1) * truth_->Noise(noise));
    }
    device.speed_factor = sum / 3;
  }
}

// Eight co-runs per device type, of two, three and five tenants at equal shares: what neighbours do
// to each other there. In the last two the model that draws most bandwidth is beside itself, since
// that is where neighbours cost most.
void Arena::ProfilePairs(Rng noise) {
  for (uint32_t t = 0; t < given_.cluster.types.size(); ++t) {
    const auto device = std::find_if(devices_.begin(), devices_.end(),
                                     [&](const auto& d) { return d.type.index() == t; });
    if (device == devices_.end() || placement::DivisionMode(device->modes) != ShareMode::kMps)
      continue;
    std::vector<latency::CoRun> runs;
    constexpr int64_t kBatches[] = {2, 8, 32};
    const std::pair<size_t, int> sizes[] = {{2, 500}, {3, 325}, {5, 200},
                                            {2, 250}, {3, 325}, {5, 200}};
    for (size_t first = 0; first < std::size(sizes); ++first) {
      std::vector<std::pair<size_t, int64_t>> tenants;
      for (size_t k = first; k < first + sizes[first].first; ++k)
        tenants.emplace_back(k % demands_.size(), kBatches[k % std::size(kBatches)]);
      CoRun(*device, tenants, MilliShare(sizes[first].second), noise, runs);
    }
    const auto drawn = [&](size_t s) {
      const auto* found = model_->Find(demands_[s].model, device->type, 8);
      return found == nullptr
                 ? 0.0
                 : latency::DramDemand(found->terms, model_->Law(demands_[s].model, device->type),
                                       model_->sm_count(device->type), {});
    };
    size_t hungriest = 0;
    for (size_t s = 1; s < demands_.size(); ++s)
      if (drawn(s) > drawn(hungriest)) hungriest = s;
    CoRun(*device, std::vector(3, std::pair(hungriest, int64_t{32})), MilliShare(325), noise, runs);
    CoRun(*device, std::vector(5, std::pair(hungriest, int64_t{8})), MilliShare(200), noise, runs);
    if (!runs.empty())
      model_->SetNeighbours(DeviceTypeId(t), latency::FitNeighbours(runs, latency::ShareLaw()));
  }
}

void Arena::CoRun(const placement::DeviceState& device,
                  const std::vector<std::pair<size_t, int64_t>>& tenants, MilliShare share,
                  Rng& noise, std::vector<latency::CoRun>& runs) const {
  std::vector<world::Server> servers;
  std::vector<latency::Neighbour> loads;
  latency::Neighbourhood all;
  for (size_t k = 0; k < tenants.size(); ++k) {
    const auto& d = demands_[tenants[k].first];
    const int64_t batch = std::min(tenants[k].second, d.max_batch);
    const auto* found = model_->Find(d.model, device.type, batch);
    if (found == nullptr) return;
    servers.push_back({d.model, device.id, share, ShareMode::kMps, batch, static_cast<int>(k)});
    const auto law = model_->Law(d.model, device.type);
    const latency::ShareGrant grant{share, ShareMode::kMps, 1};
    const int sms = model_->sm_count(device.type);
    loads.push_back(latency::ResidentOf(found->terms, law, sms, grant));
    all.Add(loads.back());
  }
  std::vector<const world::Server*> busy;
  for (const auto& s : servers) busy.push_back(&s);
  std::vector<double> ratios(tenants.size());
  truth_->Ratios(busy, ratios);
  for (size_t k = 0; k < tenants.size(); ++k) {
    latency::CoRun run{loads[k], all, ratios[k] * truth_->Noise(noise)};
    run.others.Add(loads[k], -1);
    runs.push_back(run);
  }
}

placement::ServiceView Arena::View() const {
  placement::ServiceView view;
  view.services = demands_;
  view.devices = devices_;
  view.types = given_.cluster.types;
  view.price_per_hour = prices_;
  view.estimator = given_.estimator;
  view.model = model_.get();
  return view;
}

world::RequestOutcome Arena::Serve(std::span<const placement::Instance> instances,
                                   std::span<const double> rates_rps, world::ArrivalPattern pattern,
                                   double duration_s, uint64_t seed,
                                   std::span<const double> trace) const {
  std::vector<world::ServedService> services;
  for (size_t s = 0; s < demands_.size(); ++s) {
    const workload::RatePoint rate{Nanos(0), rates_rps[s]};
    services.push_back({world::Arrivals(pattern, {&rate, 1}, duration_s,
                                        Rng(seed).Split("arrivals " + std::to_string(s)), trace),
                        demands_[s].slo_ms, demands_[s].slo_percentile});
  }
  std::vector<world::ServingInstance> in_world;
  for (const auto& i : instances) in_world.push_back(InWorld(i, demands_[i.service.index()].model));
  world::RequestOptions options;
  options.duration_s = duration_s;
  options.warm_up_s = std::min(2.0, duration_s / 10);
  options.seed = seed;
  return world::ServeRequests(services, in_world, *truth_, options);
}

Judgement Arena::Judge(std::span<const placement::Instance> instances,
                       std::span<const double> planned_ms, uint64_t seed,
                       world::ArrivalPattern pattern, std::span<const double> trace) const {
  Judgement judgement;
  judgement.planned_ms.assign(planned_ms.begin(), planned_ms.end());
  std::vector<double> rates(demands_.size(), 0.0);
  for (const auto& i : instances) rates[i.service.index()] += i.rate_rps;
  double slowest = 1e300;  // of those served: a refused service is not judged
  for (size_t s = 0; s < rates.size(); ++s) {
    if (!servable_[s]) continue;
    if (rates[s] <= 0) return judgement;  // somebody is left out
    judgement.planned_rps += rates[s];
    slowest = std::min(slowest, rates[s]);
  }
  if (judgement.planned_rps <= 0) return judgement;
  const double seconds = std::clamp(kRequestsJudged / slowest, kLeastSeconds, kMostSeconds);
  std::vector<world::ServedService> asked;
  for (const auto& d : demands_) asked.push_back({{}, d.slo_ms, d.slo_percentile});
  const auto serve = [&](double scale) {
    auto scaled = rates;
    for (double& r : scaled) r *= scale;
    return Serve(instances, scaled, pattern, seconds, seed, trace);
  };
  judgement.at_plan = serve(1);
  for (size_t s = 0; s < planned_ms.size(); ++s) {
    if (planned_ms[s] <= 0) continue;  // refused
    judgement.response_error.push_back(
        judgement.at_plan.services[s].at_percentile_ms / planned_ms[s] - 1);
  }
  double low = 0.02, high = 8;
  if (!serve(low).every_objective_kept(asked)) return judgement;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (serve(middle).every_objective_kept(asked) ? low : high) = middle;
  }
  judgement.scale = low;
  return judgement;
}

double Arena::CostPerHour(std::span<const placement::Instance> instances) const {
  std::set<uint32_t> used;
  for (const auto& i : instances) used.insert(i.device.index());
  double sum = 0;
  for (const uint32_t d : used) sum += prices_[d];
  return sum;
}

int Arena::DevicesUsed(std::span<const placement::Instance> instances) const {
  std::set<uint32_t> used;
  for (const auto& i : instances) used.insert(i.device.index());
  return static_cast<int>(used.size());
}

PlannedLatency LatencyOf(const placement::ServiceView& view, const latency::ServiceModel& model,
                         std::span<const placement::Instance> instances, size_t index) {
  const auto& instance = instances[index];
  const auto& demand = view.services[instance.service.index()];
  const auto& device = view.devices[instance.device.index()];
  PlannedLatency planned;
  const auto terms_of = [&](const placement::Instance& i) {
    const auto* batch = model.Find(view.services[i.service.index()].model, device.type, i.batch);
    return batch != nullptr ? batch->terms : latency::ServiceTerms{};
  };
  const auto law = model.Law(demand.model, device.type);
  const int sms = model.sm_count(device.type);
  const latency::ShareGrant grant{instance.share, instance.mode, instance.processes};
  const placement::CapacityTable table(view, model, 0);
  const auto server_of = [&](const placement::Instance& i) {
    const auto& capacity = table.OfProcesses(i.service.index(), device.type, i.mode, i.processes);
    for (const auto& step : capacity.steps)
      if (step.grant.share == i.share)
        for (const auto& option : step.batches)
          if (option.batch == i.batch) return option.server;
    // A share or batch that the planner would not take (a rival's): the run, linear in the batch.
    const auto l = model.Law(view.services[i.service.index()].model, device.type);
    const double run = latency::RunSeconds(terms_of(i), l, sms, {i.share, i.mode, i.processes});
    return placement::BatchServer{run, view.padded ? 1 : 1.0 / static_cast<double>(i.batch),
                                  i.batch};
  };
  // Everybody on the device: slow-downs and busy fractions settle together.
  std::vector<size_t> here;
  std::vector<placement::BatchServer> servers;
  std::vector<latency::Neighbour> loads;
  size_t mine = 0;
  for (size_t j = 0; j < instances.size(); ++j) {
    const auto& o = instances[j];
    if (o.device != instance.device) continue;
    if (j == index) mine = here.size();
    here.push_back(j);
    servers.push_back(server_of(o));
    const auto l = model.Law(view.services[o.service.index()].model, device.type);
    const latency::ShareGrant g{o.share, o.mode, o.processes};
    loads.push_back(latency::ResidentOf(terms_of(o), l, sms, g));
  }
  std::vector<double> factors(here.size(), 1.0);
  for (int round = 0; round < 25; ++round) {
    latency::Neighbourhood all;
    std::vector<latency::Neighbour> now = loads;
    for (size_t k = 0; k < here.size(); ++k) {
      const auto& o = instances[here[k]];
      auto slowed = servers[k];
      slowed.run_s *= factors[k];
      now[k].busy = placement::BatchQueue::BusyFraction(slowed, o.rate_rps / o.processes);
      all.Add(now[k]);
    }
    for (size_t k = 0; k < here.size(); ++k) {
      latency::Neighbourhood others = all;
      others.Add(now[k], -1);
      const auto& o = instances[here[k]];
      factors[k] = device.speed_factor *
                   latency::Interference(
                       loads[k], model.Law(view.services[o.service.index()].model, device.type),
                       o.mode, others);
    }
  }
  auto server = servers[mine];
  const double alone = server.run_s * device.speed_factor;  // this card, no neighbours
  server.run_s *= factors[mine];
  const double rate = instance.rate_rps / instance.processes;
  // Requests are dealt over the replicas in turn: each sees its part of them more evenly.
  double all = 0;
  for (const auto& o : instances)
    if (o.service == instance.service) all += o.rate_rps;
  server.evenness = instance.processes > 1 || all <= 0 ? 1 : instance.rate_rps / all;
  planned.part = {server, rate};
  const auto at = [&](double p) {
    return 1e3 * placement::BatchQueue(p).ResponseSeconds(server, rate);
  };
  planned.at_percentile_ms = at(demand.slo_percentile);
  planned.p50_ms = at(0.5);
  planned.p99_ms = demand.slo_percentile == 0.99 ? planned.at_percentile_ms : at(0.99);
  const double n = placement::BatchQueue::MeanBatch(server, rate);
  const double part = server.Run(n);
  planned.run_ms = 1e3 * server.run_s * part;
  planned.wait_ms = std::max(0.0, planned.at_percentile_ms - planned.run_ms);
  const auto by = latency::RunSecondsByTerm(terms_of(instance), law, sms, grant);
  const double to_ms = 1e3 * device.speed_factor * part;
  planned.compute_ms = to_ms * by.compute_s;
  planned.dram_ms = to_ms * by.dram_s;
  planned.launch_ms = to_ms * (by.launch_s + by.serial_s);
  planned.interference_ms = 1e3 * (server.run_s - alone) * part;
  return planned;
}

std::vector<double> PlannedResponses(const placement::ServiceView& view,
                                     const latency::ServiceModel& model,
                                     std::span<const placement::Instance> instances) {
  std::vector<std::vector<placement::QueuePart>> parts(view.services.size());
  for (size_t i = 0; i < instances.size(); ++i)
    for (int p = 0; p < instances[i].processes; ++p)
      parts[instances[i].service.index()].push_back(LatencyOf(view, model, instances, i).part);
  std::vector<double> responses;
  for (size_t s = 0; s < parts.size(); ++s)
    responses.push_back(
        1e3 * placement::MixtureResponseSeconds(parts[s], view.services[s].slo_percentile));
  return responses;
}

}  // namespace hase::serving

#include "execution/worker/measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hase::execution {
namespace {

// The next message of type T; a Failure becomes an Error naming the model.
template <typename T>
Result<T> Expect(Worker& worker, const std::string& model, Measurement& into) {
  for (;;) {
    auto message = worker.Receive(FromSeconds(3600));
    if (!message) return Unavailable(fmt::format("{}: a worker did not answer in an hour", model));
    if (auto* failure = std::get_if<Failure>(&*message)) {
      return std::unexpected(Error{failure->kind, fmt::format("{}: {}", model, failure->why)});
    }
    if (auto* profile = std::get_if<Profile>(&*message)) into.nodes = std::move(profile->nodes);
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
  }
}

int64_t RunsWanted(Nanos one, const MeasureOptions& options) {
  const double batch = std::max(1.0, static_cast<double>(one.value()));
  const auto fit = [&](Nanos time) { return static_cast<double>(time.value()) / batch; };
  double runs = std::max<double>(options.min_runs, std::ceil(fit(options.min_time)));
  runs = std::min({runs, std::max(1.0, fit(options.max_time)), double(options.max_runs)});
  return static_cast<int64_t>(runs);
}

}  // namespace

double Measurement::spread() const { return p50.value() > 0 ? Ratio(p90 - p10, p50) : 0; }

Result<Measurement> Measure(const Partition& partition, LoadRequest load,
                            const MeasureOptions& options) {
  load.duty = partition.duty();
  load.warm_up = std::max(1, options.warm_up);  // left out of the profile, too
  Measurement result;
  const std::string model = load.model;
  const int64_t batch = load.batch;
  HASE_ASSIGN_OR_RETURN(Worker worker, Worker::Spawn(partition, std::move(load)));
  HASE_ASSIGN_OR_RETURN(result.loaded, Expect<Loaded>(worker, model, result));
  HASE_RETURN_IF_ERROR(worker.Send(RunRequest{.inputs = batch}));
  HASE_ASSIGN_OR_RETURN(const Chunk probe, Expect<Chunk>(worker, model, result));
  const int64_t runs = RunsWanted(probe.busy, options);
  HASE_RETURN_IF_ERROR(worker.Send(RunRequest{.inputs = runs * batch, .then_exit = true}));
  HASE_ASSIGN_OR_RETURN(const Chunk chunk, Expect<Chunk>(worker, model, result));
  HASE_ASSIGN_OR_RETURN(const Done done, Expect<Done>(worker, model, result));
  result.peak_run = done.peak;
  result.runs = chunk.batches;
  result.p10 = chunk.p10;
  result.p50 = chunk.p50;
  result.p90 = chunk.p90;
  result.typical = partition.quota() < kWholeDevice
                       ? Nanos(chunk.busy.value() / std::max<int64_t>(1, chunk.batches))
                       : chunk.p50;
  return result;
}

}  // namespace hase::execution

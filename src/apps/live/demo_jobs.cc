#include "apps/live/demo_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"

namespace hase::live {
namespace {

// All five families. resnet34, mobilenet_v1 and yolov8n are measured at no batch.
constexpr Pair kPairs[] = {
    {"resnet18", 4, true},      {"resnet50", 1, true},      {"vgg11", 1, true},
    {"densenet121", 2, true},   {"mobilenet_v2", 8, true},  {"mobilenet_v3_small", 4, true},
    {"yolov5n", 1, true},       {"resnet18", 1, false},     {"resnet34", 2, false},
    {"resnet50", 4, false},     {"vgg11", 4, false},        {"densenet121", 1, false},
    {"mobilenet_v1", 4, false}, {"mobilenet_v2", 2, false}, {"yolov5n", 4, false},
    {"yolov8n", 1, false},
};
constexpr Pair kQuickPairs[] = {
    {"resnet18", 4, true},  {"mobilenet_v2", 4, true},  {"mobilenet_v3_small", 4, true},
    {"resnet18", 1, false}, {"mobilenet_v2", 2, false},
};

}  // namespace

std::span<const Pair> DemoPairs(bool quick) {
  return quick ? std::span<const Pair>(kQuickPairs) : std::span<const Pair>(kPairs);
}

DemoSize SizeOf(bool quick) {
  if (quick)
    return {.jobs = 14, .shortest_s = 0.5, .longest_s = 1.5, .arrivals_s = 3, .least_over_load = 6};
  return {};
}

std::vector<workload::Job> DrawDemoJobs(uint64_t seed, bool quick, const TimeOf& time_of) {
  const DemoSize size = SizeOf(quick);
  Rng which = Rng(seed).Split("pairs"), sizes = Rng(seed).Split("sizes"),
      arrivals = Rng(seed).Split("arrivals");
  std::array<std::vector<Pair>, 2> pools;  // never profiled, profiled
  for (const Pair& pair : DemoPairs(quick)) pools[pair.profiled].push_back(pair);
  std::vector<double> times = {0, 0, 0};
  while (static_cast<int>(times.size()) < size.jobs)
    times.push_back(arrivals.Uniform(0, size.arrivals_s));
  std::sort(times.begin(), times.end());
  std::vector<workload::Job> jobs;
  for (int i = 0; i < size.jobs; ++i) {
    // A pool is gone through in random order before any pair comes again.
    auto& pool = pools[i % 7 % 2 == 0];
    if (pool.empty())
      for (const Pair& pair : DemoPairs(quick))
        if (pair.profiled == (i % 7 % 2 == 0)) pool.push_back(pair);
    const auto at = which.UniformInt(0, static_cast<int64_t>(pool.size()) - 1);
    const Pair pair = pool[static_cast<size_t>(at)];
    pool.erase(pool.begin() + at);
    const PairTime time = time_of(pair);
    const double drawn =
        std::exp(sizes.Uniform(std::log(size.shortest_s), std::log(size.longest_s)));
    const double work_s = std::max(drawn, size.least_over_load * time.load_s);
    workload::Job job;
    job.job_id = fmt::format("j{:02}", i + 1);
    job.model = pair.model;
    job.batch = pair.batch;
    job.inputs = pair.batch * std::max<int64_t>(1, std::llround(work_s / time.batch_s));
    job.arrival = FromSeconds(times[static_cast<size_t>(i)]);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace hase::live

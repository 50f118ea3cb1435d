// Measures the CPU surface: a seeded sample of 80 solo, 60 pair and 30 triple points over seven zoo
// models × batches × shares, each share a quota of all cores that the kernel enforces, all tenants
// of a point running without pause. Writes one row per tenant; resumes a file it began, and stops
// by itself after a given time, so it can be run in pieces while the machine is quiet.
//
//   bench_cpu_surface [FILE] [SECONDS]       default tests/data/cpu_surface.csv, 240
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/csv.h"
#include "base/file.h"
#include "base/rng.h"
#include "tenants.h"

namespace hase::bench {
namespace {

constexpr const char* kModels[] = {"mobilenet_v3_small", "mobilenet_v3_large", "mobilenet_v2",
                                   "mobilenet_v1",       "resnet18",           "yolov5n",
                                   "densenet121"};
constexpr int64_t kBatches[] = {1, 2, 4, 8};
constexpr double kShares[] = {0.25, 0.5, 0.75, 1};
constexpr double kLeastSeconds = 0.7, kMostSeconds = 1.7;
constexpr size_t kRuns = 50;
constexpr const char* kHeader =
    "point,kind,tenant,model,batch,share,runs,p50_ms,mean_ms,p99_ms,machine";

struct Point {
  std::string kind;
  std::vector<TenantSpec> tenants;
};

template <typename T>
const T& Pick(Rng& rng, std::span<const T> from) {
  return from[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(from.size()) - 1))];
}

// The sample: fixed by the seed, so that a resumed run measures the same points.
std::vector<Point> Sample() {
  std::vector<Point> solo;
  for (const char* model : kModels)
    for (const int64_t batch : kBatches)
      for (const double share : kShares) solo.push_back({"solo", {{model, batch, share}}});
  Rng rng = Rng(20).Split("cpu surface");
  for (size_t i = solo.size(); i > 1; --i)
    std::swap(solo[i - 1],
              solo[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(i) - 1))]);
  solo.resize(80);
  std::vector<Point> points = solo;
  const auto draw = [&](size_t tenants, size_t count, const char* kind) {
    for (size_t made = 0; made < count;) {
      Point p{kind, {}};
      double sum = 0;
      for (size_t k = 0; k < tenants; ++k) {
        p.tenants.push_back({Pick<const char*>(rng, kModels), Pick<int64_t>(rng, kBatches),
                             Pick<double>(rng, kShares)});
        sum += p.tenants.back().share;
      }
      if (sum > 1.0001) continue;  // more than there is: no plan sells it
      points.push_back(std::move(p));
      ++made;
    }
  };
  draw(2, 60, "pair");
  draw(3, 30, "triple");
  // Mixed, so that whatever drifts with time does so over all kinds alike.
  for (size_t i = points.size(); i > 1; --i)
    std::swap(points[i - 1],
              points[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(i) - 1))]);
  return points;
}

double Quantile(std::vector<double> v, double p) {
  std::sort(v.begin(), v.end());
  const double at = p * static_cast<double>(v.size() - 1);
  const size_t i = static_cast<size_t>(at);
  const double part = at - static_cast<double>(i);
  return i + 1 < v.size() ? v[i] * (1 - part) + v[i + 1] * part : v[i];
}

Result<std::string> Measure(size_t index, const Point& point, const std::string& state,
                            const std::string& machine) {
  HASE_ASSIGN_OR_RETURN(auto tenants, Tenants::Start(point.tenants, state));
  std::vector<std::vector<double>> runs(tenants->size());
  for (size_t i = 0; i < tenants->size(); ++i) HASE_RETURN_IF_ERROR(tenants->Run(i, 1'000'000));
  const Nanos begin = execution::MonotonicNow();
  const auto seconds = [&] { return ToSeconds(execution::MonotonicNow() - begin); };
  std::vector<int> seen(tenants->size());
  while (seconds() < kMostSeconds) {
    const bool enough =
        std::all_of(runs.begin(), runs.end(), [](const auto& r) { return r.size() >= kRuns; });
    if (enough && seconds() > kLeastSeconds) break;
    HASE_ASSIGN_OR_RETURN(const auto done, tenants->Next(1));
    // The first run of each began before the others did.
    if (done && seen[done->tenant]++ > 0 && seconds() > 0.1)
      runs[done->tenant].push_back(1e3 * done->run_s);
  }
  std::string rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].size() < 2) return Unavailable("too few runs of " + point.tenants[i].model);
    double sum = 0;
    for (const double r : runs[i]) sum += r;
    rows += fmt::format("{},{},{},{},{},{:g},{},{:.4f},{:.4f},{:.4f},{}\n", index, point.kind, i,
                        point.tenants[i].model, point.tenants[i].batch, point.tenants[i].share,
                        runs[i].size(), Quantile(runs[i], 0.5),
                        sum / static_cast<double>(runs[i].size()), Quantile(runs[i], 0.99),
                        CsvField(machine));
  }
  return rows;
}

Result<int> Main(const std::string& path, double budget_s) {
  const std::string machine = Fingerprint();
  std::string content = std::string(kHeader) + "\n";
  std::vector<bool> done(1000);
  if (const auto text = ReadFile(path)) {
    HASE_ASSIGN_OR_RETURN(const auto table, CsvTable::Parse(path, *text, {}, {"point", "machine"}));
    for (size_t i = 0; i < table.rows(); ++i) {
      if (table.Text(i, "machine") != machine)
        return Invalid(fmt::format("{}: measured on '{}', this is '{}'; give another file",
                                   table.Where(i, "machine"), table.Text(i, "machine"), machine));
      HASE_ASSIGN_OR_RETURN(const int64_t point, table.RequiredInteger(i, "point"));
      if (point >= 0 && point < 1000) done[static_cast<size_t>(point)] = true;
    }
    content = *text;
  }
  const auto points = Sample();
  const Nanos begin = execution::MonotonicNow();
  size_t left = 0, failed = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (done[i]) continue;
    if (ToSeconds(execution::MonotonicNow() - begin) > budget_s) {
      ++left;
      continue;
    }
    auto rows = Measure(i, points[i], "build/surface-models", machine);
    if (!rows) {
      fmt::print(stderr, "bench_cpu_surface: point {}: {}\n", i, rows.error().message);
      ++failed;
      continue;
    }
    content += *rows;
    HASE_RETURN_IF_ERROR(WriteFileAtomically(path, content));
    fmt::print(stderr, "\r{} of {} ", i + 1, points.size());
  }
  fmt::print(stderr, "\nbench_cpu_surface: {} points left, {} failed\n", left, failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace hase::bench

int main(int argc, char** argv) {
  // A worker is this binary run again.
  if (argc == 4 && std::string_view(argv[1]) == "worker")
    return hase::execution::WorkerMain(3, hase::Nanos(std::atoll(argv[3])));
  CLI::App app("Measure how models share this machine's cores (docs/services.md)",
               "bench_cpu_surface");
  std::string file = "tests/data/cpu_surface.csv";
  double seconds = 240;
  app.add_option("FILE", file, "Rows; a file that was begun is gone on with")
      ->capture_default_str();
  app.add_option("SECONDS", seconds, "Stop after this long")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto status = hase::bench::Main(file, seconds);
  if (!status) {
    fmt::print(stderr, "bench_cpu_surface: {}\n", status.error().message);
    return 1;
  }
  return *status;
}

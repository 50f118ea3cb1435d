#include "workload/generator.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <set>

#include "base/rng.h"

namespace hase::workload {
namespace {

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<double> NumberIn(const std::string& key, const std::string& text, double lo, double hi) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= lo && value <= hi)) {
    return Usage(
        fmt::format("generator: {}={} must be a number between {:g} and {:g}", key, text, lo, hi));
  }
  return value;
}

Result<int64_t> IntegerIn(const std::string& key, const std::string& text, int64_t lo, int64_t hi) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (!whole || value < lo || value > hi) {
    return Usage(fmt::format("generator: {}={} must be a whole number between {} and {}", key, text,
                             lo, hi));
  }
  return value;
}

struct NumberKey {
  std::string_view key;
  double GeneratorSpec::* field;
  double lo, hi;
};
constexpr NumberKey kNumbers[] = {
    {"load", &GeneratorSpec::load, 0.01, 100},
    {"mean_s", &GeneratorSpec::mean_s, 1e-3, 1e6},
    {"tail", &GeneratorSpec::tail, 1.05, 100},
    {"largest", &GeneratorSpec::largest, 1, 1e6},
    {"exclusive", &GeneratorSpec::exclusive, 0, 1},
    {"gang", &GeneratorSpec::gang, 0, 1},
    {"cut", &GeneratorSpec::cut, 0, 1},
    {"deadline", &GeneratorSpec::deadline, 0, 1},
    {"urgent", &GeneratorSpec::urgent, 0, 1},
};

Status SetKey(const std::string& key, const std::string& value, GeneratorSpec& spec) {
  for (const auto& number : kNumbers) {
    if (number.key != key) continue;
    HASE_ASSIGN_OR_RETURN(spec.*number.field, NumberIn(key, value, number.lo, number.hi));
    return {};
  }
  if (key == "jobs") {
    HASE_ASSIGN_OR_RETURN(spec.jobs, IntegerIn(key, value, 1, kMostJobs));
    return {};
  }
  if (key == "batches") {
    spec.batches.clear();
    for (const auto& part : Split(value, '|')) {
      HASE_ASSIGN_OR_RETURN(const int64_t batch, IntegerIn(key, part, 1, 65536));
      spec.batches.push_back(batch);
    }
    return {};
  }
  if (key == "models") {
    spec.models = Split(value, '|');
    return {};
  }
  return Usage(
      fmt::format("generator: unknown key '{}' (jobs, load, mean_s, tail, largest, "
                  "exclusive, gang, cut, deadline, urgent, batches, models)",
                  key));
}

// One (model, batch) that runs somewhere, with the harmonic mean of its batch time over devices.
struct Kind {
  std::string model;
  int64_t batch;
  double batch_s;
};

std::vector<std::vector<Kind>> KindsByFamily(const GeneratorSpec& spec,
                                             const cluster::Cluster& cluster,
                                             const SpeedTable& speed) {
  std::vector<double> devices_of_type(cluster.types.size());
  for (const auto& d : cluster.devices) devices_of_type[d.type.index()] += 1;
  auto families = ModelFamilies();
  if (!spec.models.empty()) families = {spec.models};
  std::vector<std::vector<Kind>> kinds;
  for (const auto& family : families) {
    auto& list = kinds.emplace_back();
    for (const auto& model : family) {
      for (const int64_t batch : spec.batches) {
        double rate = 0, devices = 0;
        for (uint32_t t = 0; t < cluster.types.size(); ++t) {
          const auto seconds = speed(model, DeviceTypeId(t), batch);
          if (!seconds || *seconds <= 0) continue;
          rate += devices_of_type[t] / *seconds;
          devices += devices_of_type[t];
        }
        if (rate > 0) list.push_back({model, batch, devices / rate});
      }
    }
    if (list.empty()) kinds.pop_back();
  }
  return kinds;
}

// Job sizes in device seconds, mean about mean_s.
double DrawSize(const GeneratorSpec& spec, Rng& rng) {
  const double smallest = spec.mean_s * (spec.tail - 1) / spec.tail;
  return std::min(rng.Pareto(smallest, spec.tail), spec.mean_s * spec.largest);
}

// Times in units of the mean gap, sorted, starting at 0.
std::vector<double> DrawArrivals(Arrivals kind, int64_t n, Rng& rng) {
  std::vector<double> times;
  double t = 0;
  for (int64_t i = 0; i < n; ++i) {
    times.push_back(kind == Arrivals::kOffline ? 0 : t);
    // Bursty: 0.9 · 0.2 + 0.1 · 8.2 = 1.
    const bool in_burst = kind == Arrivals::kBursty && rng.Uniform() < 0.9;
    const double mean = kind != Arrivals::kBursty ? 1.0 : in_burst ? 0.2 : 8.2;
    t += rng.Exponential(1 / mean);
  }
  if (kind != Arrivals::kDiurnal) return times;
  // Time t of the constant-rate process goes where the integral of 1 + 0.8 sin reaches it.
  const double day = t / 3, w = 2 * std::numbers::pi / day;
  for (double& time : times) {
    double lo = 0, hi = 2 * t + 1;
    for (int step = 0; step < 60; ++step) {
      const double mid = (lo + hi) / 2;
      (mid + 0.8 / w * (1 - std::cos(w * mid)) < time ? lo : hi) = mid;
    }
    time = lo;
  }
  return times;
}

Job DrawJob(const GeneratorSpec& spec, int64_t number, int devices,
            const std::vector<std::vector<Kind>>& kinds, Rng& rng, double& device_s) {
  Job job;
  job.job_id = fmt::format("j{:05}", number);
  const auto& family = kinds[static_cast<size_t>(rng.UniformInt(0, std::ssize(kinds) - 1))];
  const Kind& kind = family[static_cast<size_t>(rng.UniformInt(0, std::ssize(family) - 1))];
  job.model = kind.model;
  job.batch = kind.batch;
  const double batches = std::max(1.0, std::round(DrawSize(spec, rng) / kind.batch_s));
  job.inputs = static_cast<int64_t>(batches) * kind.batch;
  device_s = batches * kind.batch_s;
  // All draws are made for every job, so that one fraction moves no other job's.
  const double shape = rng.Uniform(), urgent = rng.Uniform(), cut = rng.Uniform();
  const int64_t gang = int64_t{2} << rng.UniformInt(0, 2);
  job.owner = fmt::format("owner{}", rng.UniformInt(1, 8));
  if (shape < spec.exclusive) {
    job.sharing = Sharing::kNever;
  } else if (shape < spec.exclusive + spec.gang) {
    job.gang = static_cast<int>(std::min<int64_t>(gang, std::max(1, devices / 2)));
  }
  if (urgent < spec.urgent) job.priority = 1;
  if (job.gang == 1 && cut < spec.cut) job.max_parallel = 1000;
  return job;
}

}  // namespace

const std::vector<std::vector<std::string>>& ModelFamilies() {
  static const std::vector<std::vector<std::string>> kFamilies = {
      {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"},
      {"vgg11", "vgg13", "vgg16", "vgg19"},
      {"densenet121", "densenet161", "densenet169", "densenet201"},
      {"mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"},
      {"yolov3_tiny", "yolov5n", "yolov5s", "yolov5m", "yolov8n", "yolov8s", "yolov8m"},
  };
  return kFamilies;
}

Result<GeneratorSpec> ParseGeneratorSpec(std::string_view text) {
  const auto parts = Split(text, ',');
  GeneratorSpec spec;
  constexpr std::string_view kNames[] = {"offline", "poisson", "bursty", "diurnal"};
  const auto* at = std::find(std::begin(kNames), std::end(kNames), parts[0]);
  if (at == std::end(kNames)) {
    return Usage(fmt::format("generator: unknown arrivals '{}' (offline, poisson, bursty, diurnal)",
                             parts[0]));
  }
  spec.arrivals = static_cast<Arrivals>(at - std::begin(kNames));
  std::set<std::string> seen;
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string::npos) {
      return Usage(fmt::format("generator: '{}' is not key=value", parts[i]));
    }
    if (const std::string key = parts[i].substr(0, equals); !seen.insert(key).second) {
      return Usage(fmt::format("generator: '{}' twice", key));
    }
    HASE_RETURN_IF_ERROR(SetKey(parts[i].substr(0, equals), parts[i].substr(equals + 1), spec));
  }
  if (spec.exclusive + spec.gang > 1) return Usage("generator: exclusive + gang is above 1");
  return spec;
}

Result<std::vector<Job>> Generate(const GeneratorSpec& spec, uint64_t seed,
                                  const cluster::Cluster& cluster, const SpeedTable& speed) {
  const auto kinds = KindsByFamily(spec, cluster, speed);
  if (kinds.empty()) {
    return Invalid("generator: none of its models has a time on any device of the cluster");
  }
  for (const auto& model : spec.models) {
    const bool timed =
        std::ranges::any_of(kinds[0], [&](const Kind& kind) { return kind.model == model; });
    if (!timed) {
      return Usage(
          fmt::format("generator: model '{}' is unknown or has no time on any device of "
                      "the cluster",
                      model));
    }
  }
  const Rng root(seed);
  Rng job_rng = root.Split("jobs"), arrival_rng = root.Split("arrivals"),
      deadline_rng = root.Split("deadlines");
  const int devices = static_cast<int>(cluster.devices.size());
  std::vector<Job> jobs;
  std::vector<double> sizes;
  double work = 0;
  for (int64_t i = 0; i < spec.jobs; ++i) {
    double device_s = 0;
    jobs.push_back(DrawJob(spec, i, devices, kinds, job_rng, device_s));
    sizes.push_back(device_s);
    work += device_s;
  }
  const auto arrivals = DrawArrivals(spec.arrivals, spec.jobs, arrival_rng);
  const double span = arrivals.back() > 0 ? arrivals.back() : 1;
  const double seconds = work / (spec.load * devices);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].arrival = FromSeconds(arrivals[i] / span * seconds);
    const double chance = deadline_rng.Uniform(), slack = deadline_rng.Uniform(2, 10);
    if (chance < spec.deadline) {
      jobs[i].deadline = jobs[i].arrival + FromSeconds(sizes[i] * slack + spec.mean_s);
    }
  }
  return jobs;
}

}  // namespace hase::workload

#include "latency/partition_law.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace hase::latency {
namespace {

constexpr double kCoreExponent = 0.85;
constexpr double kPriorQuotaSigma = 0.06, kPriorCoreSigma = 0.15;

std::vector<double> LogRatios(const Evidence& evidence, const std::string& from,
                              const std::string& to) {
  std::vector<double> ratios;
  constexpr auto kRuntime = model::Runtime::kOrtCpu;
  for (const auto precision : {model::Precision::kFp32, model::Precision::kInt8}) {
    for (const auto& name : evidence.Models(from, kRuntime, precision)) {
      const auto& there = evidence.Of(to, kRuntime, precision, name);
      for (const auto& [batch, whole] : evidence.Of(from, kRuntime, precision, name)) {
        const auto it = there.find(batch);
        if (it != there.end()) ratios.push_back(std::log(it->second.latency_us / whole.latency_us));
      }
    }
  }
  return ratios;
}

}  // namespace

std::optional<Partition> ParsePartition(std::string_view name) {
  constexpr std::string_view kPrefix = "cpu-", kQuota = "c-q";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Partition p;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), p.cores);
  const std::string_view rest(end, static_cast<size_t>(name.data() + name.size() - end));
  if (error != std::errc() || p.cores < 1 || !rest.starts_with(kQuota)) return std::nullopt;
  const char* first = rest.data() + kQuota.size();
  const char* last = rest.data() + rest.size();
  const auto [stop, bad] = std::from_chars(first, last, p.quota);
  if (bad != std::errc() || stop != last || !(p.quota > 0) || p.quota > 1) return std::nullopt;
  return p;
}

std::optional<PartitionLaw::Ratio> PartitionLaw::Between(const std::string& from,
                                                         const std::string& to) const {
  if (from == to) return Ratio{};
  const auto a = ParsePartition(from), b = ParsePartition(to);
  if (!a || !b) return std::nullopt;
  const auto [it, fresh] = memo_.try_emplace({from, to});
  Ratio& ratio = it->second;
  if (!fresh) return ratio;
  const double cores = std::log(static_cast<double>(a->cores) / b->cores);
  ratio.log_factor = std::log(a->quota / b->quota) + kCoreExponent * cores;
  const double prior =
      std::hypot(a->quota == b->quota ? 0.02 : kPriorQuotaSigma, kPriorCoreSigma * std::abs(cores));
  ratio.sigma = prior;
  auto measured = LogRatios(*evidence_, from, to);
  if (measured.empty()) return ratio;
  const double n = static_cast<double>(measured.size());
  const double median = MedianOf(measured);
  std::vector<double> deviations;
  for (const double r : measured) deviations.push_back(std::abs(r - median));
  const double spread = 1.4826 * MedianOf(deviations);
  ratio.pairs = static_cast<int>(measured.size());
  ratio.log_factor += (median - ratio.log_factor) * n / (n + 1);
  // The deviation of a single pair, shrunk from the prior's half; and the median's own error.
  const double single = std::sqrt((n * spread * spread + 2 * prior * prior / 4) / (n + 2));
  ratio.sigma = std::hypot(single, prior / (n + 1));
  return ratio;
}

}  // namespace hase::latency

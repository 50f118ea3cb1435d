#include "cluster/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/paths.h"

namespace hase::cluster {
namespace {

const std::vector<std::string_view> kColumns = {"name",
                                                "aliases",
                                                "vendor",
                                                "architecture",
                                                "compute_capability",
                                                "sm_count",
                                                "cores_per_sm",
                                                "base_clock_mhz",
                                                "boost_clock_mhz",
                                                "memory_gib",
                                                "bandwidth_gb_s",
                                                "l2_mib",
                                                "fp32_tflops",
                                                "tf32_tflops",
                                                "fp16_tflops",
                                                "bf16_tflops",
                                                "int8_tops",
                                                "pcie_gb_s",
                                                "price_per_hour",
                                                "price_source",
                                                "verified",
                                                "source",
                                                "note"};

Bytes FromGib(double gib) { return Bytes(std::llround(gib * 1073741824.0)); }

std::vector<std::string> SplitAliases(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find('|'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status ReadFigures(const CsvTable& table, size_t row, DeviceSpec& spec) {
  const auto integer = [&](std::string_view column, int& target) -> Status {
    HASE_ASSIGN_OR_RETURN(const int64_t value, table.RequiredInteger(row, column));
    if (value < 0 || value > 1'000'000) {
      return Invalid(fmt::format("{}: {} is out of range", table.Where(row, column), value));
    }
    target = static_cast<int>(value);
    return {};
  };
  const auto number = [&](std::string_view column, double& target) -> Status {
    HASE_ASSIGN_OR_RETURN(target, table.RequiredNumber(row, column));
    if (target >= 0) return {};
    return Invalid(fmt::format("{}: {} is negative", table.Where(row, column), target));
  };
  double memory_gib = 0, l2_mib = 0;
  int verified = 0;
  HASE_RETURN_IF_ERROR(integer("compute_capability", spec.compute_capability));
  HASE_RETURN_IF_ERROR(integer("sm_count", spec.sm_count));
  HASE_RETURN_IF_ERROR(integer("cores_per_sm", spec.cores_per_sm));
  HASE_RETURN_IF_ERROR(integer("base_clock_mhz", spec.base_clock_mhz));
  HASE_RETURN_IF_ERROR(integer("boost_clock_mhz", spec.boost_clock_mhz));
  HASE_RETURN_IF_ERROR(number("memory_gib", memory_gib));
  HASE_RETURN_IF_ERROR(number("bandwidth_gb_s", spec.bandwidth_gb_s));
  HASE_RETURN_IF_ERROR(number("l2_mib", l2_mib));
  constexpr std::string_view peaks[] = {"fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops",
                                        "int8_tops"};
  for (size_t i = 0; i < std::size(peaks); ++i) {
    HASE_RETURN_IF_ERROR(number(peaks[i], spec.peak_tflops[i]));
  }
  HASE_RETURN_IF_ERROR(number("pcie_gb_s", spec.pcie_gb_s));
  HASE_RETURN_IF_ERROR(number("price_per_hour", spec.price_per_hour));
  HASE_RETURN_IF_ERROR(integer("verified", verified));
  spec.memory = FromGib(memory_gib);
  spec.l2 = FromGib(l2_mib / 1024);
  spec.verified = verified == 1;
  return {};
}

// Where a MIG profile begins in the name: "… MIG 1g.10gb", "…-MIG-1g.10gb"; npos if nowhere.
size_t FindMig(std::string_view name) {
  for (size_t i = 0; i + 5 <= name.size(); ++i) {
    if (name.substr(i, 3) == "MIG" &&
        (i == 0 || !std::isalnum(static_cast<unsigned char>(name[i - 1])))) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

std::string NormalisedDeviceName(std::string_view name) {
  static constexpr std::string_view kDropped[] = {"nvidia", "tesla",  "geforce",  "quadro",
                                                  "amd",    "radeon", "instinct", "shared"};
  std::string result, word;
  const auto flush = [&] {
    if (std::find(std::begin(kDropped), std::end(kDropped), word) == std::end(kDropped))
      result += word;
    word.clear();
  };
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u)) {
      word += static_cast<char>(std::tolower(u));
    } else {
      flush();
    }
  }
  flush();
  return result;
}

Result<Catalogue> Catalogue::Parse(std::string file_name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(const CsvTable table,
                        CsvTable::Parse(std::move(file_name), text, kColumns, kColumns));
  Catalogue catalogue;
  for (size_t row = 0; row < table.rows(); ++row) {
    DeviceSpec spec;
    spec.name = table.Text(row, "name");
    spec.aliases = SplitAliases(table.Text(row, "aliases"));
    spec.vendor = table.Text(row, "vendor");
    spec.architecture = table.Text(row, "architecture");
    HASE_RETURN_IF_ERROR(ReadFigures(table, row, spec));
    auto names = spec.aliases;
    names.insert(names.begin(), spec.name);
    for (const auto& name : names) {
      const auto [at, fresh] = catalogue.index_.emplace(NormalisedDeviceName(name), row);
      if (!fresh && at->second != row) {
        return Invalid(fmt::format("{}: '{}' already names {}", table.Where(row, "aliases"), name,
                                   catalogue.specs_[at->second].name));
      }
    }
    catalogue.specs_.push_back(std::move(spec));
  }
  return catalogue;
}

Result<Catalogue> Catalogue::Load() {
  HASE_ASSIGN_OR_RETURN(const auto path, DataFile("catalogue.csv"));
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Parse(path.string(), text);
}

Result<DeviceSpec> Catalogue::Find(std::string_view name) const {
  if (const size_t mig = FindMig(name); mig != std::string_view::npos && mig > 1) {
    HASE_ASSIGN_OR_RETURN(const DeviceSpec whole, Find(name.substr(0, mig)));
    std::string_view profile = name.substr(mig + 3);
    while (!profile.empty() && !std::isdigit(static_cast<unsigned char>(profile[0]))) {
      profile.remove_prefix(1);
    }
    return MigInstance(whole, profile);
  }
  const std::string wanted = NormalisedDeviceName(name);
  if (const auto found = index_.find(wanted); found != index_.end()) return specs_[found->second];
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const auto& spec : specs_) {
    size_t best = EditDistance(wanted, NormalisedDeviceName(spec.name));
    for (const auto& alias : spec.aliases) {
      best = std::min(best, EditDistance(wanted, NormalisedDeviceName(alias)));
    }
    near.emplace_back(best, spec.name);
  }
  std::sort(near.begin(), near.end());
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i) {
    list += fmt::format("{}{}", i ? ", " : "", near[i].second);
  }
  return Invalid(fmt::format("unknown device '{}' (nearest in the catalogue: {})", name, list));
}

std::vector<ShareMode> EnforceableModes(const DeviceSpec& spec) {
  if (spec.kind == DeviceKind::kCpu) return {ShareMode::kExclusive, ShareMode::kCpuQuota};
  std::vector<ShareMode> modes = {ShareMode::kExclusive, ShareMode::kTimeSlice};
  if (spec.vendor == "NVIDIA" && spec.compute_capability >= 70) modes.push_back(ShareMode::kMps);
  if (MigSlices(spec) > 0) modes.push_back(ShareMode::kMig);
  return modes;
}

int MigSlices(const DeviceSpec& spec) {
  if (spec.vendor != "NVIDIA") return 0;
  if (spec.name == "A30") return 4;
  // GA100, GH100 and GB100 have seven slices; the other chips of their generations have none.
  const int cc = spec.compute_capability;
  return (cc == 80 || cc == 90 || cc == 100) && spec.name.find(" MIG ") == std::string::npos ? 7
                                                                                             : 0;
}

Result<DeviceSpec> MigInstance(const DeviceSpec& whole, std::string_view profile) {
  int slices = 0, gigabytes = 0;
  const char* end = profile.data() + profile.size();
  auto [p, code] = std::from_chars(profile.data(), end, slices);
  const bool head = code == std::errc() && end - p > 2 && p[0] == 'g' && p[1] == '.';
  auto [q, code2] = head ? std::from_chars(p + 2, end, gigabytes)
                         : std::from_chars_result{p, std::errc::invalid_argument};
  const int total = MigSlices(whole);
  if (code2 != std::errc() ||
      std::string_view(q, static_cast<size_t>(end - q)).substr(0, 2) != "gb") {
    return Invalid(fmt::format("'{}' is no MIG profile (for example 3g.40gb)", profile));
  }
  if (slices < 1 || slices > total || gigabytes < 1 || FromGib(gigabytes) > whole.memory + GiB(1)) {
    return Invalid(fmt::format("{} cannot be cut to MIG profile {}: it has {} slices and {} GiB",
                               whole.name, profile, total, whole.memory.value() >> 30));
  }
  DeviceSpec part = whole;
  part.name = fmt::format("{} MIG {}g.{}gb", whole.name, slices, gigabytes);
  part.aliases.clear();
  // SMs per slice are fixed by the chip: 14 on GA100 (seven slices use 98 of 108), an eighth of the
  // card on later ones; bandwidth, L2 and memory go by memory slices (NVIDIA MIG user guide).
  part.sm_count = slices * (whole.compute_capability == 80 ? 14 : whole.sm_count / 8);
  const double compute = static_cast<double>(part.sm_count) / whole.sm_count;
  const double memory = std::min(
      1.0, static_cast<double>(GiB(gigabytes).value()) / static_cast<double>(whole.memory.value()));
  for (double& peak : part.peak_tflops) peak *= compute;
  part.memory = Scale(whole.memory, memory);
  part.bandwidth_gb_s *= memory;
  part.l2 = Scale(whole.l2, memory);
  part.price_per_hour *= static_cast<double>(slices) / total;
  return part;
}

}  // namespace hase::cluster

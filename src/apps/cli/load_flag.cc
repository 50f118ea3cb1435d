#include "apps/cli/load_flag.h"

#include <fmt/format.h>

#include <charconv>

namespace hase::cli {
namespace {

Result<double> Fraction(std::string_view text, std::string_view what, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > most) {
    return Usage(fmt::format("--load: {} '{}' is not a number from 0 to {:g}", what, text, most));
  }
  return value;
}

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Result<ResidentWish> ParseResident(std::string_view text) {
  // From the right, as a path may hold a colon.
  const size_t last = text.rfind(':');
  const size_t first =
      last == std::string_view::npos || last == 0 ? last : text.rfind(':', last - 1);
  if (last == std::string_view::npos || first == std::string_view::npos || first == 0) {
    return Usage(fmt::format("--load: resident '{}' is not MODEL:BATCH:SHARE", text));
  }
  ResidentWish wish{std::string(text.substr(0, first)), 1, kWholeDevice};
  const std::string_view batch = text.substr(first + 1, last - first - 1);
  const auto [end, error] = std::from_chars(batch.data(), batch.data() + batch.size(), wish.batch);
  if (error != std::errc() || end != batch.data() + batch.size() || wish.batch < 1) {
    return Usage(
        fmt::format("--load: resident '{}': batch '{}' is not a whole number from 1", text, batch));
  }
  HASE_ASSIGN_OR_RETURN(const double share, Fraction(text.substr(last + 1), "share", 1));
  if (share <= 0) return Usage(fmt::format("--load: resident '{}': share must be above 0", text));
  wish.share = ShareFromFraction(share);
  return wish;
}

}  // namespace

Result<LoadWish> ParseLoad(std::string_view text) {
  LoadWish load;
  if (text.empty()) return load;
  for (const std::string& whole : Split(text, ',')) {
    const std::string_view part = whole;
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (whole == "live") {
      load.live = true;
      continue;
    }
    load.foreign.valid = true;
    if (key == "sm") {  // on a CPU: runnable strangers per core
      HASE_ASSIGN_OR_RETURN(load.foreign.sm, Fraction(value, "sm", 64));
    } else if (key == "dram") {
      HASE_ASSIGN_OR_RETURN(load.foreign.dram, Fraction(value, "dram", 1));
    } else if (key == "pcie") {
      HASE_ASSIGN_OR_RETURN(load.foreign.pcie, Fraction(value, "pcie", 1));
    } else if (key == "residents") {
      for (const std::string& wish : Split(value, '+')) {
        HASE_ASSIGN_OR_RETURN(auto resident, ParseResident(wish));
        load.residents.push_back(std::move(resident));
      }
    } else {
      return Usage(
          fmt::format("--load: unknown part '{}' (known: sm, dram, pcie, residents, live)", key));
    }
  }
  return load;
}

}  // namespace hase::cli

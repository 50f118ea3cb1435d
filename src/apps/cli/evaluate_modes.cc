#include "apps/cli/evaluate_modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hase::cli {
namespace {

// The flags that each mode reads, beside its own name; the first is that without a name.
struct Mode {
  std::string_view name;
  std::vector<std::string_view> reads, reads_unless_replayed;
};
std::span<const Mode> Modes() {
  static const Mode kModes[] = {
      {"",
       {"--data", "--set", "--model", "--split", "--holdout-device", "--calibrate", "--ablate",
        "--sample", "--threads", "--residuals", "--html"},
       {}},
      {"--models", {"--data", "--model", "--calibration-networks"}, {}},
      {"--pairs", {"--data"}, {}},
      {"--cpu", {"--residuals", "--record", "--replay"}, {"--device", "--cluster", "--state"}},
      {"--load",
       {"--record", "--replay"},
       {"--device", "--load-models", "--stranger", "--cluster", "--state"}},
  };
  return kModes;
}

}  // namespace

Status CheckEvaluateMode(const CLI::App& command) {
  const Mode* mode = &Modes().front();
  for (const Mode& other : Modes().subspan(1)) {
    if (command.count(std::string(other.name)) > 0) mode = &other;
  }
  const bool replayed = command.count("--replay") > 0;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--json" || name == mode->name) continue;
    if (std::ranges::find(mode->reads, name) != mode->reads.end()) continue;
    const auto& live = mode->reads_unless_replayed;
    const bool measures = std::ranges::find(live, name) != live.end();
    if (measures && !replayed) continue;
    return Usage(fmt::format("{} is not read {}", name,
                             measures             ? "with --replay"
                             : mode->name.empty() ? "without --models, --pairs, --cpu or --load"
                                                  : fmt::format("with {}", mode->name)));
  }
  return {};
}

}  // namespace hase::cli
